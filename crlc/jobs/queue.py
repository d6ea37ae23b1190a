"""Job queue: requested training jobs, and the thread that starts, watches and stops their processes.

All servers on a workspace share one queue. Each of them may add, stop or cancel jobs by editing the job file under a
lock. Only the owner, which holds a second lock as long as it runs, starts and signals processes. When the owner exits,
another server becomes the owner. Closing a queue leaves its processes running; the next owner finds them again.
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
from crlc.jobs.job import Job, JobState, create_job, drop_oldest_jobs, extract_device_options, find_startable_job
from crlc.jobs.job_file import FileStamp, JobFile
from crlc.jobs.process import ChildProcess, ProcessWatcher, reap_children
from crlc.jobs.status import (
    ANNOUNCEMENT_FILE,
    LOG_FILE,
    ExternalRuns,
    describe_pending_jobs,
    get_run_folder,
    read_log_tail,
    refresh_job,
)
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_logger = logging.getLogger(__name__)
_POLL_SECONDS = 1.0  # to notice changes by other processes: jobs, runs, the end of the owner
_SHORT_POLL_SECONDS = 0.5  # while the id of a run is unknown, or a run is stopping
_RETRY_SECONDS = 5.0  # after an error
_SECONDS_BEFORE_SIGNAL = 8.0  # from the request to stop to the signal
_FINAL_JOBS_KEPT = 50


class JobQueue:
    """Queue of the training jobs of a workspace. One object per server; safe to use from several threads."""

    def __init__(self, workspace: Workspace) -> None:
        """Create a queue that only reads and writes jobs; `start` starts the thread that runs them."""
        self._workspace, self._root = workspace, workspace.root
        self._file = JobFile(self._root)
        self._changed = threading.Condition()
        self._last_notified: object = None
        self._cleaned_stamp: FileStamp | None = None
        self._watcher = ProcessWatcher()
        self._external_runs = ExternalRuns(self._root)
        self._ownership = ExitStack()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="crlc-jobs", daemon=True)
        self.is_owner = False
        """True if this server starts and watches the training processes."""

        self.problem = ""
        """Error that prevents the queue from working, in one line; empty if there is none."""

    def start(self) -> JobQueue:
        """Start the thread that starts and watches training processes; later calls do nothing."""
        with self._changed:
            if self._thread.ident is None and not self._closing:
                self._thread.start()
        return self

    def close(self) -> None:
        """End the thread. Training processes keep running, and the next owner of the queue finds them."""
        with self._changed:
            was_closed, self._closing = self._closing, True
        self._watcher.wake()
        if self._thread.ident is not None:
            self._thread.join()
        if not was_closed:
            self._watcher.close()

    def __enter__(self) -> JobQueue:
        """Start the thread."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Close the queue."""
        self.close()

    # ---- reading

    def read_jobs(self) -> tuple[Job, ...]:
        """Return all jobs, oldest request first.

        Raises:
            DamagedError: the job file cannot be read.
        """
        return self._file.read_jobs()

    def get_job(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            NotFoundError: it is no longer in the queue.
        """
        jobs = self._file.read_jobs()
        return jobs[_find_index(job_id, jobs)]

    def find_job_of_run(self, run: str) -> Job | None:
        """Return the newest job of a run."""
        return next((job for job in reversed(self.read_jobs()) if job.run == run), None)

    def read_log(self, job_id: str) -> str:
        """Return the last 64 KiB of the output of a job's process."""
        return read_log_tail(self._file.folder / self.get_job(job_id).id / LOG_FILE)

    def wait_until(self, condition: Callable[[tuple[Job, ...]], object], seconds: float | None = None) -> bool:
        """Wait until a condition on the jobs holds; return False after a timeout.

        Args:
            condition: receives all jobs and returns a true value when the wait is over.
            seconds: timeout; `None` to wait without a limit.
        """
        with self._changed:
            return bool(self._changed.wait_for(lambda: condition(self.read_jobs()), seconds))

    def describe_pending_jobs(self) -> str:
        """Describe running and waiting jobs for a user who shuts down this server."""
        return describe_pending_jobs(self.read_jobs(), self._root, is_owner=self.is_owner)

    # ---- requests

    def submit(self, arguments: Sequence[str], *, title: str = "", requested_by: str = "app") -> Job:
        """Add a training job to the queue.

        Args:
            arguments: dataset and options of `crlc train`. Paths must be absolute: another server may start the job.
            title: short description for the user; by default the dataset.
            requested_by: origin of the request.

        Raises:
            UsageError: the arguments name no dataset, or contain an option that a job must not contain.
        """
        if not arguments:
            raise UsageError("A training run needs at least the name of a dataset.")
        job = create_job(["train", *arguments], title or arguments[0], requested_by)
        with self._file.edit() as jobs:
            jobs.append(job)
        self._announce_change()
        return job

    def resume(self, run: str, *, requested_by: str = "app") -> Job:
        """Queue a stopped, failed or interrupted run to be resumed; a second request returns the same job.

        The new job uses the devices of the last job of the run and replaces it in the list.

        Args:
            run: id of the run.
            requested_by: origin of the request.

        Raises:
            NotFoundError: there is no such run.
            UsageError: it is finished, or is being trained.
        """
        folder = RunStore(self._workspace).open(run)
        with self._file.edit() as jobs:
            for job in jobs:
                if job.run == folder.id and not job.is_final:
                    return job
            state = folder.read_status().state
            if not state.is_resumable:
                raise UsageError(f"{folder.id} is {state}; only a stopped, failed or interrupted run can be resumed.")
            devices = [extract_device_options(job.arguments) for job in jobs if job.run == folder.id]
            arguments = ["resume", folder.id, *(devices[-1] if devices else ())]
            jobs[:] = [job for job in jobs if job.run != folder.id]
            job = create_job(arguments, folder.read_metadata()["dataset"], requested_by, run=folder.id)
            jobs.append(job)
        self._announce_change()
        return job

    def retry(self, job_id: str) -> Job:
        """Queue a job that did not finish again: its run is resumed, or a new run is started if there was none.

        Raises:
            NotFoundError: the job is no longer in the queue.
            UsageError: it is waiting, running or finished.
        """
        old = self.get_job(job_id)
        if not old.is_final or old.state is JobState.FINISHED:
            raise UsageError(f"This job is {old.state}; only a job that ended without finishing can be retried.")
        if old.run is not None:
            return self.resume(old.run, requested_by=old.requested_by)
        again = create_job(old.arguments, old.title, old.requested_by)
        with self._file.edit() as jobs:
            del jobs[_find_index(job_id, jobs)]  # raises an error if another session has just retried it
            jobs.append(again)
        self._announce_change()
        return again

    def cancel(self, job_id: str) -> None:
        """Cancel a waiting job.

        Raises:
            NotFoundError: the job is no longer in the queue.
            UsageError: it is not waiting.
        """
        with self._file.edit() as jobs:
            index = _find_index(job_id, jobs)
            if not jobs[index].is_waiting:
                raise UsageError(f"This job is {jobs[index].state}; only a waiting job can be cancelled.")
            jobs[index] = jobs[index].finish(JobState.CANCELLED)
        self._announce_change()

    def stop(self, job_id: str, *, at_once: bool = False) -> None:
        """Stop a running job after its current step, with a checkpoint, so that it can be resumed.

        A waiting job is cancelled. A process that is still preparing the training, and therefore does not react, is
        sent a signal after 8 s.

        Args:
            job_id: id of the job.
            at_once: kill the process immediately; progress since the last checkpoint is lost.

        Raises:
            NotFoundError: the job is no longer in the queue.
            UsageError: it is final.
        """
        with self._file.edit() as jobs:
            index = _find_index(job_id, jobs)
            job = jobs[index]
            if job.is_final:
                raise UsageError(f"This job is {job.state}; only a running or waiting job can be stopped.")
            if job.is_running:
                requested_at = job.stop_requested_at or time.time()
                job = replace(job, stop_requested_at=requested_at, is_kill_requested=job.is_kill_requested or at_once)
                self._request_stop_of_run(job)
            else:
                job = job.finish(JobState.CANCELLED)
            jobs[index] = job
        self._announce_change()

    def dismiss(self, job_id: str) -> None:
        """Remove a final job and its log from the list. Its run stays.

        Raises:
            NotFoundError: the job is no longer in the queue.
            UsageError: it is waiting or running.
        """
        with self._file.edit() as jobs:
            index = _find_index(job_id, jobs)
            if not jobs[index].is_final:
                raise UsageError(f"This job is {jobs[index].state}; only a job that has ended can be dismissed.")
            del jobs[index]
        self._announce_change()

    # ---- the thread

    def _run(self) -> None:
        pause = 0.0
        while not self._closing:
            try:
                pause = self._poll()
                self.problem = ""
            except Exception as error:  # the reason may be gone at the next poll
                if not isinstance(error, (CrlcError, OSError)):
                    _logger.exception("Unexpected error in the job queue.")
                self.problem = str(error) or type(error).__name__
                pause = _RETRY_SECONDS
            self._notify_waiting()
            if not self._closing:
                self._watcher.wait(pause)
        self.is_owner = False
        self._ownership.close()

    def _poll(self) -> float:
        """Refresh, signal and start jobs if this server is the owner; return the seconds until the next poll."""
        if not self.is_owner and not self._try_to_own():
            return _POLL_SECONDS
        reap_children()
        self._refresh_jobs()
        self._signal_stopping_jobs()
        while (job := find_startable_job(self.read_jobs())) is not None:
            self._start_job(job)
        self._remove_old_folders()
        running = [job for job in self.read_jobs() if job.is_running]
        self._watcher.watch_only([job.process for job in running if job.process is not None])
        is_urgent = any(job.run is None or job.is_stopping for job in running) or not self._watcher.detects_every_end
        return _SHORT_POLL_SECONDS if is_urgent else _POLL_SECONDS

    def _try_to_own(self) -> bool:
        try:
            self._ownership.enter_context(writer_lock(self._root / "locks" / "jobs-owner.lock", "The job queue"))
        except BusyError:
            return False
        self.is_owner = True
        return True

    def _refresh_jobs(self) -> None:
        # External runs are searched before the jobs are refreshed: a run of the queue that is found here has already
        # announced its id, so the refreshed job has that id and the run is not mistaken for an external one.
        training = self._external_runs.find_jobs()
        with self._file.edit() as jobs:
            running = [index for index, job in enumerate(jobs) if job.is_running]
            for index in running:
                jobs[index] = refresh_job(jobs[index], self._root)
            known = {jobs[index].run for index in running}  # including jobs that have just ended
            for run in sorted(training.keys() - known):
                jobs[:] = [job for job in jobs if not (job.run == run and job.is_final)]
                jobs.append(training[run])
            jobs[:] = drop_oldest_jobs(jobs, _FINAL_JOBS_KEPT)

    def _signal_stopping_jobs(self) -> None:
        for job in self.read_jobs():
            if not job.is_stopping or job.process is None or job.stop_requested_at is None:
                continue
            self._request_stop_of_run(job)  # repeated, because a starting run clears earlier requests
            if job.is_kill_requested:
                job.process.kill()
                continue
            is_overdue = time.time() - job.stop_requested_at > _SECONDS_BEFORE_SIGNAL
            if not job.is_signalled and (job.run is None or is_overdue):
                job.process.terminate()
                with self._file.edit() as jobs:
                    index = _find_index(job.id, jobs)
                    jobs[index] = replace(jobs[index], is_signalled=True)

    def _request_stop_of_run(self, job: Job) -> None:
        if job.run is not None:
            folder = get_run_folder(self._root, job.run)
            if folder.path.is_dir() and not folder.is_stop_requested():
                folder.request_stop()

    def _start_job(self, job: Job) -> None:
        """Start the process of a job. It trains only after its id is on disk, so that the queue never loses track."""
        folder = self._file.folder / job.id
        arguments = [*job.arguments, "--workspace", str(self._root)]
        if job.arguments[0] == "train":
            arguments += ["--announce", str(folder / ANNOUNCEMENT_FILE)]
        child: ChildProcess | None = None
        try:
            with self._file.edit() as jobs:
                if job not in jobs:  # it has just been cancelled
                    return
                index = jobs.index(job)
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    child = ChildProcess(arguments, folder / LOG_FILE)
                    jobs[index] = replace(job, state=JobState.RUNNING, process=child.process, started=time.time())
                except OSError as error:
                    jobs[index] = job.finish(JobState.FAILED, f"The training process cannot be started: {error}.")
        except BaseException:
            if child is not None:
                child.release()
            raise
        if child is not None:
            child.signal_start()

    def _remove_old_folders(self) -> None:
        """Remove the folders of jobs that are no longer listed. Only the owner creates folders, in this thread."""
        stamp = self._file.get_stamp()
        if stamp is None or stamp == self._cleaned_stamp:
            return
        self._cleaned_stamp = stamp
        listed = {job.id for job in self.read_jobs()}
        for folder in self._file.folder.iterdir():
            if folder.is_dir() and folder.name not in listed:
                shutil.rmtree(folder, ignore_errors=True)

    # ---- notifications

    def _announce_change(self) -> None:
        """Wake the threads in `wait_until` and the thread of the queue after a request."""
        self._notify_waiting()
        self._watcher.wake()

    def _notify_waiting(self) -> None:
        """Wake the threads in `wait_until` after a change, whichever process made it."""
        current = (self._file.get_stamp(), self.is_owner, self.problem)
        with self._changed:
            if current != self._last_notified:
                self._last_notified = current
                self._changed.notify_all()


def _find_index(job_id: str, jobs: Sequence[Job]) -> int:
    for index, job in enumerate(jobs):
        if job.id == job_id:
            return index
    raise NotFoundError(f"The job {job_id!r} is no longer in the queue.", advice="Refresh the list of jobs.")
