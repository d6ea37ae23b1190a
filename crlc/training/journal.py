"""What a run tells while it trains: lines of metrics, its status, and progress for whoever listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crlc.progress import Progress
from crlc.training.distributed import Compute
from crlc.training.memory import peak_memory_mb
from crlc.training.run_folder import RunFolder
from crlc.training.steps import StepOutcome

_STATUS_SECONDS = 2.0
_TERMS = ("probability", "entropy", "penalty", "feature", "labels")


@dataclass(frozen=True)
class TrainProgress:
    """How far a run is."""

    stage: str
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    cluster_information: float | None
    """Of the last whole epoch."""

    images_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Listener:
    """Who wants to know how far it is."""

    step: Callable[[TrainProgress], None] = lambda _: None
    preparation: Callable[[Progress], None] = lambda _: None


@dataclass(frozen=True)
class Length:
    """How long a run is."""

    batch_size: int
    steps_per_epoch: int
    epochs: int

    @property
    def steps(self) -> int:
        """Of all epochs."""
        return self.steps_per_epoch * self.epochs

    def epoch_of(self, step: int) -> int:
        """How many epochs are whole after so many steps."""
        return step // self.steps_per_epoch


class Journal:
    """Writes metrics.jsonl and status.json; only the first of several processes does."""

    def __init__(self, folder: RunFolder, length: Length, compute: Compute, listener: Listener) -> None:
        """Nothing is written yet."""
        self._folder, self._length, self._compute, self._listener = folder, length, compute, listener
        self._last_status = 0.0
        self.stage = ""
        self.seconds = 0.0
        """Spent on steps, also before the run was interrupted."""

        self.latest: dict[str, Any] = {}
        """The newest value of every metric."""

    def status(self, state: str, step: int, **facts: Any) -> None:
        """Say what state the run is in."""
        self._last_status = time.monotonic()
        if self._compute.world.is_writer:
            place = {"epoch": self._length.epoch_of(step), "epochs": self._length.epochs, "step": step}
            self._folder.write_status(state, **place, steps=self._length.steps, stage=self.stage, **facts)

    def heartbeat(self, step: int) -> None:
        """Say now and then that the process lives."""
        if time.monotonic() - self._last_status >= _STATUS_SECONDS:
            self.status("running", step)

    def preparation(self, progress: Progress, step: int) -> None:
        """Say how far something is that must be done before steps can be."""
        self._listener.preparation(progress)
        if time.monotonic() - self._last_status >= _STATUS_SECONDS:
            self.status("running", step, preparing=progress.stage, done=progress.done, total=progress.total)

    def step(self, step: int, rate: float, outcome: StepOutcome) -> None:
        """Write the terms of one step's loss."""
        if not self._compute.world.is_writer:
            return
        terms = outcome.terms
        loss = float(terms.total.detach())
        means = {name: float(getattr(terms, name).detach().mean()) for name in _TERMS}
        record = {"kind": "step", "step": step, "epoch": self._length.epoch_of(step - 1) + 1, "stage": self.stage}
        self._folder.append_metrics({**record, "learning_rate": rate, "loss": loss, **means})
        self._tell(step, loss)

    def _tell(self, step: int, loss: float) -> None:
        per_second = self._images_per_second(step)
        left = (self._length.steps - step) * self._length.batch_size / max(per_second, 1e-9)
        epoch = min(self._length.epoch_of(step) + 1, self._length.epochs)
        place = (self.stage, epoch, self._length.epochs, step, self._length.steps)
        information = self.latest.get("cluster_information")
        self._listener.step(TrainProgress(*place, loss, information, per_second, left))

    def record(self, kind: str, step: int, **content: Any) -> None:
        """Write a line about an epoch, a stage or the end."""
        timing = {
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self._images_per_second(step), 1),
            "memory_mb": round(peak_memory_mb(self._compute.device), 1),
        }
        line = {"kind": kind, "step": step, "epoch": self._length.epoch_of(step), "stage": self.stage, **content}
        self.latest = {**self.latest, **line, **timing}
        if self._compute.world.is_writer:
            self._folder.append_metrics({**line, "timing": timing})

    def _images_per_second(self, step: int) -> float:
        return step * self._length.batch_size / max(self.seconds, 1e-9)
