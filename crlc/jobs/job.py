"""One job: a training that waits, runs or has ended. And the rule by which waiting ones may start."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from crlc.errors import UsageError
from crlc.jobs.process import ProcessId

STATES = ("waiting", "running", "finished", "stopped", "failed", "interrupted", "cancelled")
ANY_DEVICE = "auto"
_OURS = ("--workspace", "--announce", "--dry-run")


@dataclass(frozen=True)
class Job:
    """What was asked for, by whom and when, and what became of it."""

    id: str
    arguments: tuple[str, ...]
    """Of `crlc`, from the command on: `train digits --epochs 3`. Empty for a run that was started elsewhere."""

    title: str
    """What it is, as the person who asked would say it."""

    asked_by: str
    """Where it came from: the app, a terminal."""

    created: float
    """Seconds since 1970, as all times here."""

    device: str = ANY_DEVICE
    """As asked for; once the run says on which it is, that one."""

    state: str = "waiting"
    run: str | None = None
    """The run's id, once it is known."""

    process: ProcessId | None = None
    started: float | None = None
    ended: float | None = None
    stop_asked: float | None = None
    """When somebody wanted it to stop."""

    kill_asked: bool = False
    """Whether it is to end at once, without a checkpoint."""

    signalled: bool = False
    """Whether its process was sent a signal, too."""

    error: str = ""
    """Why it failed, in one line."""

    @property
    def is_running(self) -> bool:
        """Whether its process lives, as far as is known."""
        return self.state == "running"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state not in ("waiting", "running")

    @property
    def is_stopping(self) -> bool:
        """Whether it runs still, but was asked to stop."""
        return self.is_running and self.stop_asked is not None

    @property
    def from_elsewhere(self) -> bool:
        """Whether the run was started by somebody else, such as in a terminal."""
        return not self.arguments

    def ending(self, state: str, error: str = "") -> Job:
        """The same job, over."""
        return replace(self, state=state, error=error, ended=time.time())

    def to_json(self) -> dict[str, Any]:
        """For the file."""
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> Job:
        """From the file.

        Raises:
            TypeError, ValueError: it is not what `to_json` gave.
        """
        process = content["process"]
        job = Job(
            **{
                **content,
                "arguments": tuple(content["arguments"]),
                "process": None if process is None else ProcessId(**process),
            }
        )
        if job.state not in STATES:
            raise ValueError(f"state={job.state!r} is none of {', '.join(STATES)}")
        return job


def new_job(arguments: Sequence[str], title: str, asked_by: str, run: str | None = None) -> Job:
    """A job that waits.

    Raises:
        UsageError: the arguments name what the queue itself decides.
    """
    taken = [word for word in arguments if word.split("=")[0] in _OURS]
    if taken:
        raise UsageError(f"{taken[0]} is not for a job of the queue, which sets it itself. Leave it out.")
    return Job(new_id(), tuple(arguments), title, asked_by, time.time(), device=_device_in(arguments), run=run)


def new_id() -> str:
    """A name for a job: when it was made, and something nobody else has."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"


def place_options(arguments: Sequence[str]) -> list[str]:
    """Those of the arguments that say where to compute, which hold for the rest of a run, too."""
    found: list[str] = []
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name in ("--device", "--devices"):
            found += [name, value or after]
    return found


def startable(jobs: Iterable[Job]) -> Job | None:
    """The first waiting job whose device is free, and wanted by no job that has waited longer.

    Which device `auto` means is known only once the run says it; until then it may be any of them.
    """
    jobs = tuple(jobs)
    taken = [job.device for job in jobs if job.is_running]
    for job in jobs:
        if job.state != "waiting":
            continue
        if not any(_same_device(job.device, other) for other in taken):
            return job
        taken.append(job.device)
    return None


def without_old(jobs: Sequence[Job], most: int) -> list[Job]:
    """All but the oldest of the ended jobs, when there are more than so many of those."""
    ended = sorted((job for job in jobs if job.has_ended), key=lambda job: job.ended or 0.0)
    dropped = {job.id for job in ended[: max(0, len(ended) - most)]}
    return [job for job in jobs if job.id not in dropped]


def _same_device(one: str, other: str) -> bool:
    return one == other or ANY_DEVICE in (one, other)


def _device_in(arguments: Sequence[str]) -> str:
    options = place_options(arguments)
    named = dict(zip(options[::2], options[1::2], strict=True))
    return named.get("--device") or ANY_DEVICE
