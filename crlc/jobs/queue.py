"""The queue of trainings: what people ask for, and the thread that starts, follows and stops processes.

Every server on a workspace shares one queue. Any of them may add, stop or cancel a job: it changes the file under a
lock. Only the owner, who holds another lock for as long as it lives, starts and signals processes; when it ends or is
killed, the next server takes over. Closing the queue leaves trainings running, and the next owner finds them again.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from crlc.errors import BusyError, CrlcError, NotFoundError, UsageError
from crlc.files import writer_lock
from crlc.jobs.following import ANNOUNCEMENT, LOG, RunsFromElsewhere, looked_at, run_folder, tail
from crlc.jobs.job import Job, new_job, place_options, startable, without_old
from crlc.jobs.job_file import JobFile, Stamp
from crlc.jobs.process import Child, ProcessWatch, collect_children
from crlc.workspace.runs import Runs
from crlc.workspace.workspace import Workspace

_logger = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0  # for what other processes write: jobs, runs, the end of the owner
_SOON_SECONDS = 0.5  # while a run has not said its name, or is to stop
_PROBLEM_SECONDS = 5.0
_STOP_PATIENCE_SECONDS = 8.0
_ENDED_JOBS_KEPT = 50
_RESUMABLE = ("stopped", "failed")


class JobQueue:
    """The trainings of a workspace; one object per server, used by any number of threads."""

    def __init__(self, workspace: Workspace) -> None:
        """Take the workspace; `start` begins the work."""
        self._workspace, self._root = workspace, workspace.root
        self._file = JobFile(self._root)
        self._changed = threading.Condition()
        self._noticed: object = None
        self._tidied: Stamp | None = None
        self._watch = ProcessWatch()
        self._elsewhere = RunsFromElsewhere(self._root)
        self._ownership = ExitStack()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="crlc-jobs", daemon=True)
        self.is_owner = False
        """Whether this server starts and follows the trainings, and no other one."""

        self.problem = ""
        """What keeps the queue from working, in one line; empty when nothing does."""

    def start(self) -> JobQueue:
        """Begin to start and follow trainings; only the first call does something."""
        with self._changed:
            if self._thread.ident is None and not self._closing:
                self._thread.start()
        return self

    def close(self) -> None:
        """End the thread. Trainings go on, and whoever owns the queue next finds them."""
        with self._changed:
            was_closed, self._closing = self._closing, True
        self._watch.wake()
        if self._thread.ident is not None:
            self._thread.join()
        if not was_closed:
            self._watch.close()

    def __enter__(self) -> JobQueue:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    # ---- looking

    def jobs(self) -> tuple[Job, ...]:
        """All jobs, first those that were asked for first.

        Raises:
            DamagedError: the file of the queue is not what this program wrote.
        """
        return self._file.jobs()

    def job(self, job_id: str) -> Job:
        """One job.

        Raises:
            NotFoundError: it is not in the queue any more.
        """
        return self._file.jobs()[_place_of(job_id, self._file.jobs())]

    def job_of(self, run: str) -> Job | None:
        """The newest job of a run."""
        return next((job for job in reversed(self.jobs()) if job.run == run), None)

    def log(self, job_id: str) -> str:
        """The end of what its process printed."""
        return tail(self._file.folder / self.job(job_id).id / LOG)

    def wait_for(self, wanted: Callable[[tuple[Job, ...]], object], seconds: float | None = None) -> bool:
        """Wait until the jobs are as wanted; False when time is up before."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: wanted(self.jobs()), seconds))

    def summary(self) -> str:
        """What happens to the trainings when this server ends, in words for the person who ends it."""
        jobs = self.jobs()
        running = [job.run or job.title for job in jobs if job.is_running]
        waiting = sum(job.state == "waiting" for job in jobs)
        if not running and not waiting:
            return "No training is running."
        parts = []
        if running:
            one = len(running) == 1
            parts.append(
                f"{'A training goes' if one else f'{len(running)} trainings go'} on without the app: "
                f"{', '.join(running)}. The app finds {'it' if one else 'them'} again when it is next started; "
                f"`crlc stop RUN` stops {'it' if one else 'one'}."
            )
        if waiting and self.is_owner:
            parts.append(f"Waiting until the app is started again: {waiting}.")
        elif waiting:
            parts.append(f"Waiting, and left to another app on this workspace: {waiting}.")
        return " ".join(parts)

    # ---- asking

    def train(self, arguments: Sequence[str], *, title: str = "", asked_by: str = "app") -> Job:
        """Add a training to the queue.

        Args:
            arguments: of `crlc train`: a data set and options. Paths are absolute: a later app may start it.
            title: what it is, for people; by default the data set.
            asked_by: where the wish came from.

        Raises:
            UsageError: the arguments name what the queue itself decides, or no data set.
        """
        if not arguments:
            raise UsageError("A training needs at least the name of a data set.")
        job = new_job(["train", *arguments], title or arguments[0], asked_by)
        with self._file.changing() as jobs:
            jobs.append(job)
        self._tell()
        return job

    def resume(self, run: str, *, asked_by: str = "app") -> Job:
        """Add the rest of a stopped or interrupted run to the queue; asked for twice, it is there once.

        It is computed where its last job was, and takes that one's place in the list.

        Raises:
            NotFoundError: there is no such run.
            UsageError: it is finished, or is being trained.
        """
        found = Runs(self._workspace).open(run)
        with self._file.changing() as jobs:
            for job in jobs:
                if job.run == found.id and not job.has_ended:
                    return job
            state = found.status()["state"]
            if state not in _RESUMABLE:
                raise UsageError(f"{found.id} is {state}; only a run that was stopped or interrupted can be resumed.")
            where = [place_options(job.arguments) for job in jobs if job.run == found.id]
            arguments = ["resume", found.id, *(where[-1] if where else ())]
            jobs[:] = [job for job in jobs if job.run != found.id]
            job = new_job(arguments, found.description()["dataset"], asked_by, run=found.id)
            jobs.append(job)
        self._tell()
        return job

    def retry(self, job_id: str) -> Job:
        """Ask again for a job that did not finish: its run is resumed, or begun anew where there was none.

        Raises:
            NotFoundError: it is not in the queue any more.
            UsageError: it has not ended, or is finished.
        """
        old = self.job(job_id)
        if not old.has_ended or old.state == "finished":
            raise UsageError(f"This job is {old.state}; only one that did not finish can be tried again.")
        if old.run is not None:
            return self.resume(old.run, asked_by=old.asked_by)
        again = new_job(old.arguments, old.title, old.asked_by)
        with self._file.changing() as jobs:
            del jobs[_place_of(job_id, jobs)]  # also when somebody else tries it again at the same moment
            jobs.append(again)
        self._tell()
        return again

    def cancel(self, job_id: str) -> None:
        """Take back a job that waits.

        Raises:
            NotFoundError: it is not in the queue any more.
            UsageError: it does not wait any more.
        """
        with self._file.changing() as jobs:
            place = _place_of(job_id, jobs)
            if jobs[place].state != "waiting":
                raise UsageError(f"This job is {jobs[place].state}; only one that waits can be cancelled.")
            jobs[place] = jobs[place].ending("cancelled")
        self._tell()

    def stop(self, job_id: str, *, at_once: bool = False) -> None:
        """Have a running job stop after its present step, with a checkpoint, so that it can be resumed.

        One that waits is cancelled. A process that does not listen, since it still prepares the
        training, is sent a signal after a while.

        Args:
            job_id: which one.
            at_once: end its process without a checkpoint: what came after the last one is lost.

        Raises:
            NotFoundError: it is not in the queue any more.
            UsageError: it has ended.
        """
        with self._file.changing() as jobs:
            place = _place_of(job_id, jobs)
            job = jobs[place]
            if job.has_ended:
                raise UsageError(f"This job is {job.state}; only one that runs or waits can be stopped.")
            if job.is_running:
                job = replace(job, stop_asked=job.stop_asked or time.time(), kill_asked=job.kill_asked or at_once)
                self._ask_run_to_stop(job)
            else:
                job = job.ending("cancelled")
            jobs[place] = job
        self._tell()

    def forget(self, job_id: str) -> None:
        """Take an ended job off the list, with its log. Its run stays.

        Raises:
            NotFoundError: it is not in the queue any more.
            UsageError: it has not ended.
        """
        with self._file.changing() as jobs:
            place = _place_of(job_id, jobs)
            if not jobs[place].has_ended:
                raise UsageError(f"This job is {jobs[place].state}; only one that has ended can be taken off the list.")
            del jobs[place]
        self._tell()

    # ---- the thread

    def _work(self) -> None:
        pause = 0.0
        while not self._closing:
            try:
                pause = self._look()
                self.problem = ""
            except Exception as error:  # whatever it is, the next look may find it mended
                if not isinstance(error, (CrlcError, OSError)):
                    _logger.exception("The queue of jobs met an error.")
                self.problem = str(error) or type(error).__name__
                pause = _PROBLEM_SECONDS
            self._notice()
            if not self._closing:
                self._watch.wait(pause)
        self.is_owner = False
        self._ownership.close()

    def _look(self) -> float:
        """Do what there is to do; returns how long there is nothing to do, if nothing happens."""
        if not self.is_owner and not self._became_owner():
            return _LOOK_SECONDS
        collect_children()
        self._follow_all()
        self._send_signals()
        while (job := startable(self.jobs())) is not None:
            self._begin(job)
        self._tidy()
        running = [job for job in self.jobs() if job.is_running]
        self._watch.follow([job.process for job in running if job.process is not None])
        soon = any(job.run is None or job.is_stopping for job in running) or not self._watch.sees_all
        return _SOON_SECONDS if soon else _LOOK_SECONDS

    def _became_owner(self) -> bool:
        try:
            self._ownership.enter_context(writer_lock(self._root / "locks" / "jobs-owner.lock", "The queue"))
        except BusyError:
            return False
        self.is_owner = True
        return True

    def _follow_all(self) -> None:
        # In this order: a run that trains has announced itself before, so that its job knows it by then.
        training = self._elsewhere.training()
        with self._file.changing() as jobs:
            followed = [place for place, job in enumerate(jobs) if job.is_running]
            for place in followed:
                jobs[place] = looked_at(jobs[place], self._root)
            known = {jobs[place].run for place in followed}  # also those that have just ended
            for run in sorted(training.keys() - known):
                jobs[:] = [job for job in jobs if not (job.run == run and job.has_ended)]
                jobs.append(training[run])
            jobs[:] = without_old(jobs, _ENDED_JOBS_KEPT)

    def _send_signals(self) -> None:
        for job in self.jobs():
            if not job.is_stopping or job.process is None or job.stop_asked is None:
                continue
            self._ask_run_to_stop(job)  # again: a run that begins forgets what was wished before
            if job.kill_asked:
                job.process.signal(kill=True)
            elif not job.signalled and (job.run is None or time.time() - job.stop_asked > _STOP_PATIENCE_SECONDS):
                job.process.signal(kill=False)
                with self._file.changing() as jobs:
                    place = _place_of(job.id, jobs)
                    jobs[place] = replace(jobs[place], signalled=True)

    def _ask_run_to_stop(self, job: Job) -> None:
        if job.run is not None:
            folder = run_folder(self._root, job.run)
            if folder.path.is_dir() and not folder.stop_asked():
                folder.ask_to_stop()

    def _begin(self, job: Job) -> None:
        """Start a process. It does nothing before its number is on disk, so that no training is ever lost sight of."""
        folder = self._file.folder / job.id
        arguments = [*job.arguments, "--workspace", str(self._root)]
        if job.arguments[0] == "train":
            arguments += ["--announce", str(folder / ANNOUNCEMENT)]
        child: Child | None = None
        try:
            with self._file.changing() as jobs:
                if job not in jobs:  # cancelled a moment ago
                    return
                place = jobs.index(job)
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    child = Child(arguments, folder / LOG)
                    jobs[place] = replace(job, state="running", process=child.process, started=time.time())
                except OSError as error:
                    jobs[place] = job.ending("failed", f"Its process cannot be started: {error}.")
        except BaseException:
            if child is not None:
                child.leave()
            raise
        if child is not None:
            child.begin()

    def _tidy(self) -> None:
        """Remove the folders of jobs that are forgotten. Only the owner makes any, in this thread."""
        stamp = self._file.stamp()
        if stamp is None or stamp == self._tidied:
            return
        self._tidied = stamp
        known = {job.id for job in self.jobs()}
        for folder in self._file.folder.iterdir():
            if folder.is_dir() and folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    # ---- telling

    def _tell(self) -> None:
        """Somebody asked for something: the thread is to see to it, others to know it."""
        self._notice()
        self._watch.wake()

    def _notice(self) -> None:
        """Wake those who wait for a change when there is one, whoever made it."""
        seen = (self._file.stamp(), self.is_owner, self.problem)
        with self._changed:
            if seen != self._noticed:
                self._noticed = seen
                self._changed.notify_all()


def _place_of(job_id: str, jobs: Sequence[Job]) -> int:
    for place, job in enumerate(jobs):
        if job.id == job_id:
            return place
    raise NotFoundError(f"There is no job {job_id!r} in the queue any more. Look at the list again.")
