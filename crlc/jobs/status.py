"""State of a job, derived from its process, the files of its run and its log."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from crlc.errors import CrlcError
from crlc.files import read_json
from crlc.formatting import format_count
from crlc.jobs.job import ANY_DEVICE, Job, JobState, create_job_id
from crlc.runs.folder import RunFolder
from crlc.runs.state import PROCESS_GONE, RunState, RunStatus

ANNOUNCEMENT_FILE, LOG_FILE = "announced.json", "log.txt"
"""Files of a job: the run id that the training process announces, and the output of that process."""

_LOG_TAIL_BYTES = 1 << 16
_ERROR_PREFIX = "error: "


def get_run_folder(root: Path, run: str) -> RunFolder:
    """Return the folder of a run in the workspace folder `root`; it need not exist."""
    return RunFolder(root / "runs" / run)


def refresh_job(job: Job, root: Path) -> Job:
    """Return an updated copy of a running job: with its run, once that is known, and final if its process has ended.

    Args:
        job: a job with a process.
        root: workspace folder.
    """
    assert job.process is not None
    is_alive = job.process.is_alive()  # checked first: the files of an ended process are complete
    folder = root / "jobs" / job.id
    job = _add_run(job, folder, root)
    if is_alive:
        return job
    error = find_error(folder / LOG_FILE)
    return job.finish(JobState.FAILED, error) if error else _finish_without_error(job, root)


def describe_pending_jobs(jobs: Iterable[Job], root: Path, *, is_owner: bool) -> str:
    """Describe running and waiting jobs for a user who shuts down a server.

    Args:
        jobs: all jobs.
        root: workspace folder.
        is_owner: whether the server starts the waiting jobs.
    """
    jobs = tuple(jobs)
    running = [job.run or job.title for job in jobs if is_still_training(job, root)]
    waiting = sum(job.is_waiting for job in jobs)
    if not running and not waiting:
        return "No training is running."
    parts = []
    if running:
        count = format_count(len(running), "run continues", "runs continue")
        parts.append(
            f"{count} training without the app: {', '.join(running)}. The app shows them again at its next start. "
            "To stop one, run: crlc stop RUN."
        )
    if waiting and is_owner:
        parts.append(f"Jobs that wait for the next start of the app: {waiting}.")
    elif waiting:
        parts.append(f"Jobs left to another app on this workspace: {waiting}.")
    return " ".join(parts)


def is_still_training(job: Job, root: Path) -> bool:
    """Return whether a running job still has something to train: its process lives on after the run is final.

    Args:
        job: any job.
        root: workspace folder.
    """
    if not job.is_running or job.process is None:
        return False
    job = refresh_job(job, root)
    if job.is_final or job.run is None:
        return not job.is_final
    try:
        status = get_run_folder(root, job.run).read_status()
    except CrlcError:
        return True
    is_new = job.started is None or status.heartbeat >= job.started  # otherwise that of the process before a resume
    return not (status.state.is_final and is_new)


def find_error(log: Path) -> str:
    """Return the last error message of `crlc` in a log, or an empty string."""
    lines = read_log_tail(log).splitlines()
    return next((line.removeprefix(_ERROR_PREFIX) for line in reversed(lines) if line.startswith(_ERROR_PREFIX)), "")


def read_log_tail(log: Path) -> str:
    """Return the last 64 KiB of a log, or an empty string if there is no log."""
    try:
        with log.open("rb") as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - _LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


class _Announcement(TypedDict):
    run: str


class ExternalRuns:
    """Finder of active runs that were started outside the queue, for example in a terminal."""

    def __init__(self, root: Path) -> None:
        """Store the workspace folder."""
        self._root = root
        self._stamps: dict[str, int] = {}

    def find_jobs(self) -> dict[str, Job]:
        """Return a job for every active run that has written its status since the last call, by run id.

        A running run writes its status every few seconds. The files of the other runs are not read.
        """
        try:
            names = os.listdir(self._root / "runs")
        except FileNotFoundError:
            names = []
        stamps = {name: stamp for name in names if (stamp := self._get_stamp(name)) is not None}
        changed = sorted(name for name, stamp in stamps.items() if self._stamps.get(name) != stamp)
        self._stamps = stamps
        jobs = ((name, self._create_job(name)) for name in changed)
        return {name: job for name, job in jobs if job is not None}

    def _get_stamp(self, name: str) -> int | None:
        try:
            return (self._root / "runs" / name / "status.json").stat().st_mtime_ns
        except OSError:
            return None

    def _create_job(self, name: str) -> Job | None:
        run = get_run_folder(self._root, name)
        try:
            status = run.read_status()
            # Queued runs are left out: they may belong to a job of the queue that has not announced its run yet.
            if status.state not in (RunState.RUNNING, RunState.STOPPING):
                return None
            title = str(run.read_metadata()["dataset"])
        except CrlcError:
            return None
        process = status.process
        job = Job(create_job_id(), (), title, "elsewhere", process.started, state=JobState.RUNNING, run=name)
        return replace(job, process=process, started=process.started)


def _add_run(job: Job, folder: Path, root: Path) -> Job:
    if job.run is None and (folder / ANNOUNCEMENT_FILE).exists():
        announcement = read_json(folder / ANNOUNCEMENT_FILE, "announcement", 1, "Stop the job.", _Announcement)
        job = replace(job, run=announcement["run"])
    if job.run is not None and job.device == ANY_DEVICE:
        try:
            job = replace(job, device=get_run_folder(root, job.run).read_metadata().get("device", ANY_DEVICE))
        except CrlcError:
            return job  # the run was deleted
    return job


def _finish_without_error(job: Job, root: Path) -> Job:
    """Return the final state of a job whose process ended without printing an error."""
    if job.run is None:
        if job.stop_requested_at is not None:
            return job.finish(JobState.STOPPED)
        return job.finish(JobState.INTERRUPTED, f"{PROCESS_GONE} The run had not started.")
    try:
        status = get_run_folder(root, job.run).read_status()
    except CrlcError as problem:
        return job.finish(JobState.FAILED, str(problem))
    if status.state.is_active:  # only the launcher of several processes has ended
        return replace(job, process=status.process)
    return _finish_from_status(job, status)


def _finish_from_status(job: Job, status: RunStatus) -> Job:
    # A resumed run that was killed before it wrote its status still has the status of the previous process.
    is_new = job.started is None or status.heartbeat >= job.started
    if status.state is RunState.FINISHED or (status.state is RunState.STOPPED and is_new):
        return job.finish(JobState(status.state.value))
    if job.stop_requested_at is not None:
        return job.finish(JobState.STOPPED)
    if is_new and status.message and status.state is not RunState.INTERRUPTED:
        return job.finish(JobState.FAILED, status.message)
    return job.finish(JobState.INTERRUPTED, f"{PROCESS_GONE} The run can be resumed.")
