"""A job of the queue: a training run that is waiting, running or final; and the choice of the next job to start."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from crlc.errors import UsageError
from crlc.json_schema import check_entries
from crlc.subprocesses import ProcessId

ANY_DEVICE = "auto"
_RESERVED_OPTIONS = ("--workspace", "--announce", "--dry-run")
"""Options that a job must not contain: the queue sets the first two, and a dry run trains nothing."""

_FILE_NAMES = {
    "requested_by": "asked_by",
    "stop_requested_at": "stop_asked",
    "is_kill_requested": "kill_asked",
    "is_signalled": "signalled",
}
"""Names in the job file of those fields that have a different name in `Job`."""


class JobState(StrEnum):
    """State of a job. From RUNNING to INTERRUPTED, the values are those of `RunState`."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if the job stays in this state."""
        return self not in (JobState.WAITING, JobState.RUNNING)

    @property
    def is_error(self) -> bool:
        """True if the job ended unexpectedly: neither finished, stopped nor cancelled."""
        return self in (JobState.FAILED, JobState.INTERRUPTED)


@dataclass(frozen=True)
class Job:
    """A requested training run: its command, state, process and run id. All times are in seconds since 1970."""

    id: str
    arguments: tuple[str, ...]
    """Command line of `crlc`, such as `train digits --epochs 3`. Empty for a run that the queue did not start."""

    title: str
    """Short description for the user."""

    requested_by: str
    """Origin of the request, such as `app`."""

    created: float
    device: str = ANY_DEVICE
    """Requested device; once the run has started, the device that it uses."""

    state: JobState = JobState.WAITING
    run: str | None = None
    """Id of the run, once it is known."""

    process: ProcessId | None = None
    started: float | None = None
    ended: float | None = None
    stop_requested_at: float | None = None
    is_kill_requested: bool = False
    """True if the process must be killed without a checkpoint."""

    is_signalled: bool = False
    """True if the process has been sent a signal to stop."""

    error: str = ""
    """Reason why the job failed, in one line."""

    @property
    def is_waiting(self) -> bool:
        """True if the job has not been started."""
        return self.state is JobState.WAITING

    @property
    def is_running(self) -> bool:
        """True if the process of the job was alive at the last poll."""
        return self.state is JobState.RUNNING

    @property
    def is_stopping(self) -> bool:
        """True if the job is still running after a stop was requested."""
        return self.is_running and self.stop_requested_at is not None

    @property
    def is_final(self) -> bool:
        """True if the job stays in its state."""
        return self.state.is_final

    @property
    def is_external(self) -> bool:
        """True if another program, such as a terminal, started the run."""
        return not self.arguments

    def finish(self, state: JobState, error: str = "") -> Job:
        """Return a copy of the job in its final state.

        Args:
            state: the final state.
            error: reason why the job failed, in one line.
        """
        return replace(self, state=state, error=error, ended=time.time())

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the job file."""
        return {_FILE_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(content: dict[str, Any]) -> Job:
        """Return the job that an entry of the job file describes.

        Raises:
            ValueError: an entry is missing or has a wrong type, in words that continue a sentence about the job.
        """
        written = {field.name: _FILE_NAMES.get(field.name, field.name) for field in fields(Job)}
        found = {name: content[key] for name, key in written.items() if key in content}
        check_entries(found, Job)
        process = found.get("process")
        return Job(
            **{
                **found,
                "arguments": tuple(found["arguments"]),
                "state": JobState(found.get("state", JobState.WAITING)),
                "process": None if process is None else ProcessId(process["pid"], process["started"]),
            }
        )


def create_job(arguments: Sequence[str], title: str, requested_by: str, run: str | None = None) -> Job:
    """Create a waiting job.

    Args:
        arguments: command line of `crlc`.
        title: short description for the user.
        requested_by: origin of the request, such as `app`.
        run: id of the run that the job resumes.

    Raises:
        UsageError: the arguments contain an option that a job must not contain.
    """
    reserved = [word for word in arguments if word.split("=")[0] in _RESERVED_OPTIONS]
    if reserved:
        raise UsageError(f"{reserved[0]} is not allowed in a job of the queue.", advice="Leave it out.")
    device = _find_device(arguments)
    return Job(create_job_id(), tuple(arguments), title, requested_by, time.time(), device=device, run=run)


def create_job_id() -> str:
    """Return a unique id that starts with the current time."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"


def extract_device_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that choose devices, so that a resumed run uses the same devices."""
    found: list[str] = []
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name in ("--device", "--devices"):
            found += [name, value or following]
    return found


def find_startable_job(jobs: Iterable[Job]) -> Job | None:
    """Return the first waiting job whose device is free and not requested by a job that has waited longer.

    The device `auto` may be any device until the run reports which one it uses.
    """
    jobs = tuple(jobs)
    taken = [job.device for job in jobs if job.is_running]
    for job in jobs:
        if not job.is_waiting:
            continue
        if not any(_may_be_same_device(job.device, other) for other in taken):
            return job
        taken.append(job.device)
    return None


def drop_oldest_jobs(jobs: Sequence[Job], limit: int) -> list[Job]:
    """Return all waiting and running jobs, and the newest `limit` final jobs."""
    final = sorted((job for job in jobs if job.is_final), key=lambda job: job.ended or 0.0)
    dropped = {job.id for job in final[: max(0, len(final) - limit)]}
    return [job for job in jobs if job.id not in dropped]


def _may_be_same_device(one: str, other: str) -> bool:
    return one == other or ANY_DEVICE in (one, other)


def _find_device(arguments: Sequence[str]) -> str:
    options = extract_device_options(arguments)
    values = dict(zip(options[::2], options[1::2], strict=True))
    return values.get("--device") or ANY_DEVICE
