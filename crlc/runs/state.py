"""State of a run and the content of its status file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from crlc.json_schema import check_entries
from crlc.subprocesses import ProcessId

PROCESS_GONE = "The training process is gone: it was killed, memory ran out, or the computer was switched off."


class RunState(StrEnum):
    """State of a run. All values but `interrupted` are stored in status.json; readers derive that one."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The process of the run no longer exists and has not written a final state."""

    @property
    def is_active(self) -> bool:
        """True if a process trains the run or is about to start."""
        return self in (RunState.QUEUED, RunState.RUNNING, RunState.STOPPING)

    @property
    def is_final(self) -> bool:
        """True if the run stays in this state unless it is resumed."""
        return not self.is_active

    @property
    def is_resumable(self) -> bool:
        """True if training can continue from the last checkpoint."""
        return self in (RunState.STOPPED, RunState.FAILED, RunState.INTERRUPTED)

    @property
    def is_error(self) -> bool:
        """True if training ended unexpectedly, neither finished nor stopped on request."""
        return self in (RunState.FAILED, RunState.INTERRUPTED)


@dataclass(frozen=True)
class RunStatus:
    """State and progress of a run, and the process that works on it."""

    state: RunState
    epoch: int = 0
    """Number of complete epochs."""

    epochs: int = 0
    step: int = 0
    """Number of complete optimizer steps."""

    steps: int = 0
    stage: str = ""
    message: str = ""
    """Reason why the run failed or was interrupted, in one or two sentences."""

    preparing: str | None = None
    """Current preparation before the first step of a stage, such as computing features; `None` if there is none."""

    done: int = 0
    """Progress of the preparation."""

    total: int | None = None
    """Size of the preparation, or `None` when it is unknown."""

    pid: int = 0
    process_started: float = 0.0
    """Start time of the process, in seconds since 1970: process ids are reused."""

    heartbeat: float = 0.0
    """Time at which the status was written, in seconds since 1970."""

    @property
    def process(self) -> ProcessId:
        """Process that wrote the status."""
        return ProcessId(self.pid, self.process_started)

    @property
    def steps_per_epoch(self) -> float:
        """Mean number of steps per epoch, 1 while it is unknown."""
        return self.steps / self.epochs if self.steps and self.epochs else 1.0

    @staticmethod
    def from_json(content: dict[str, Any]) -> RunStatus:
        """Return the status that a status file holds; unknown and empty entries are ignored.

        Raises:
            ValueError: an entry is missing or has a wrong type.
        """
        names = {field.name for field in fields(RunStatus)}
        known = {name: value for name, value in content.items() if name in names and value is not None}
        check_entries(known, RunStatus)
        state = RunState(content["state"])
        # Earlier versions had no separate state for interrupted runs.
        if state is RunState.FAILED and str(known.get("message", "")).startswith("interrupted"):
            state = RunState.INTERRUPTED
        return RunStatus(**{**known, "state": state})
