"""What became of a job, from its process, its run's files and its log. The same for our own children and for others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from crlc.errors import CrlcError
from crlc.files import read_json
from crlc.jobs.job import ANY_DEVICE, Job, new_id
from crlc.jobs.process import ProcessId
from crlc.training.run_folder import RunFolder

ANNOUNCEMENT, LOG = "announced.json", "log.txt"
_ALIVE = ("queued", "running", "stopping")
_LOG_TAIL_BYTES = 1 << 16
_ERROR = "error: "
_GONE = "Its process is gone: it was killed, memory ran out, or the computer went off."


def run_folder(root: Path, run: str) -> RunFolder:
    """The folder of a run, whether it exists or not."""
    return RunFolder(root / "runs" / run)


def looked_at(job: Job, root: Path) -> Job:
    """A running job as it is now: with its run as soon as that is known, ended when its process has."""
    assert job.process is not None
    is_alive = job.process.is_alive()  # before the files: what it wrote before its end is in them
    folder = root / "jobs" / job.id
    job = _with_run(job, folder, root)
    if is_alive:
        return job
    error = error_in(folder / LOG)
    return job.ending("failed", error) if error else _without_process(job, root)


def _without_process(job: Job, root: Path) -> Job:
    """A job whose process is gone, and said nothing of an error."""
    if job.run is None:
        if job.stop_asked is not None:
            return job.ending("stopped")
        return job.ending("interrupted", f"{_GONE} The run had not begun.")
    try:
        status = run_folder(root, job.run).status()
    except CrlcError as problem:
        return job.ending("failed", str(problem))
    if status["state"] in _ALIVE:  # of several processes, the one that started the others is gone
        return replace(job, process=ProcessId(status["pid"], status["process_started"]))
    return _ended(job, status)


def _with_run(job: Job, folder: Path, root: Path) -> Job:
    if job.run is None and (folder / ANNOUNCEMENT).exists():
        job = replace(job, run=str(read_json(folder / ANNOUNCEMENT, "announcement", 1, "Stop the job.")["run"]))
    if job.run is not None and job.device == ANY_DEVICE:
        try:
            job = replace(job, device=run_folder(root, job.run).description().get("device", ANY_DEVICE))
        except CrlcError:
            return job  # the run was deleted
    return job


def _ended(job: Job, status: dict[str, Any]) -> Job:
    state, message = status["state"], status.get("message") or ""
    # A resumed run that was killed before it wrote a word still has that of the process before.
    is_new = job.started is None or status.get("heartbeat", 0.0) >= job.started
    if state == "finished" or (state == "stopped" and is_new):
        return job.ending(state)
    if job.stop_asked is not None:
        return job.ending("stopped")
    if is_new and message and not message.startswith("interrupted"):
        return job.ending("failed", message)
    return job.ending("interrupted", f"{_GONE} It can be resumed.")


def error_in(log: Path) -> str:
    """The line in which `crlc` says why it failed; empty where there is none."""
    lines = tail(log).splitlines()
    return next((line.removeprefix(_ERROR) for line in reversed(lines) if line.startswith(_ERROR)), "")


def tail(log: Path) -> str:
    """The end of a log; empty where there is none."""
    try:
        with log.open("rb") as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - _LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


class RunsFromElsewhere:
    """Finds runs that train although no job of the queue started them, such as from a terminal."""

    def __init__(self, root: Path) -> None:
        """Take the workspace's folder."""
        self._root = root
        self._seen: dict[str, int] = {}

    def training(self) -> dict[str, Job]:
        """A job for every run that trains now and wrote its status since the last look.

        A run that trains does so every few seconds; of the others nothing is read.
        """
        try:
            names = os.listdir(self._root / "runs")
        except FileNotFoundError:
            names = []
        seen = {name: stamp for name in names if (stamp := self._stamp(name)) is not None}
        fresh = sorted(name for name, stamp in seen.items() if self._seen.get(name) != stamp)
        self._seen = seen
        found = ((name, self._job(name)) for name in fresh)
        return {name: job for name, job in found if job is not None}

    def _stamp(self, name: str) -> int | None:
        try:
            return (self._root / "runs" / name / "status.json").stat().st_mtime_ns
        except OSError:
            return None

    def _job(self, name: str) -> Job | None:
        run = run_folder(self._root, name)
        try:
            status = run.status()
            # Not those still queued: by the time it is running, a run of the queue has announced itself.
            if status["state"] not in ("running", "stopping"):
                return None
            title = str(run.description()["dataset"])
        except CrlcError:
            return None
        process = ProcessId(status["pid"], status["process_started"])
        began = process.started
        found = Job(new_id(), (), title, "elsewhere", began, state="running", run=name)
        return replace(found, process=process, started=began)
