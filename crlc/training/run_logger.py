"""Status file, metrics log and progress reports of a run in training."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crlc.progress import Progress
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.device import measure_peak_memory_mb
from crlc.training.distributed import ComputeContext
from crlc.training.metric_names import LOSS_TERMS
from crlc.training.run_length import RunLength
from crlc.training.steps import StepOutcome

_STATUS_SECONDS = 2.0


@dataclass(frozen=True)
class TrainProgress:
    """Progress of a run at one step."""

    stage: str
    epoch: int
    """Number of the current epoch, from 1."""

    epochs: int
    step: int
    steps: int
    loss: float
    cluster_information: float | None
    """Cluster information of the last complete epoch."""

    images_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class ProgressListener:
    """Callbacks that receive the progress of a run."""

    on_step: Callable[[TrainProgress], None] = lambda _: None
    on_preparation: Callable[[Progress], None] = lambda _: None


class RunLogger:
    """Writes the metrics log and status.json of a run, in rank 0 only, and reports progress."""

    def __init__(
        self, folder: RunFolder, length: RunLength, compute: ComputeContext, listener: ProgressListener
    ) -> None:
        """Store the destinations; nothing is written yet."""
        self._folder, self._length, self._compute, self._listener = folder, length, compute, listener
        self._last_status = 0.0
        self.stage = ""
        """Name of the current stage."""

        self.seconds = 0.0
        """Time spent on steps, including those before the run was interrupted."""

        self.latest_metrics: dict[str, Any] = {}
        """Newest value of every metric."""

    def write_status(self, state: RunState, step: int, **entries: Any) -> None:
        """Write the status of the run.

        Args:
            state: the state of the run.
            step: number of complete steps.
            entries: further fields of `RunStatus`.
        """
        self._last_status = time.monotonic()
        if self._compute.world.is_rank_zero:
            position = {"epoch": self._length.count_epochs(step), "epochs": self._length.epochs, "step": step}
            self._folder.write_status(state, **position, steps=self._length.steps, stage=self.stage, **entries)

    def write_heartbeat(self, step: int) -> None:
        """Write the status again if the last one is more than two seconds old."""
        if self._is_status_due():
            self.write_status(RunState.RUNNING, step)

    def report_preparation(self, progress: Progress, step: int) -> None:
        """Report the progress of a preparation, such as computing features, before the first step of a stage."""
        self._listener.on_preparation(progress)
        if self._is_status_due():
            self.write_status(
                RunState.RUNNING, step, preparing=progress.stage, done=progress.done, total=progress.total
            )

    def log_step(self, step: int, learning_rate: float, outcome: StepOutcome) -> None:
        """Write the loss terms of one step, and report its progress."""
        if not self._compute.world.is_rank_zero:
            return
        terms = outcome.terms
        loss = float(terms.total.detach())
        means = {name: float(getattr(terms, name).detach().mean()) for name in LOSS_TERMS}
        record = {"kind": "step", "step": step, "epoch": self._length.count_epochs(step - 1) + 1, "stage": self.stage}
        self._folder.metrics_log.append({**record, "learning_rate": learning_rate, "loss": loss, **means})
        self._report_step(step, loss)

    def log_record(self, kind: str, step: int, **content: Any) -> None:
        """Write a record about an epoch, the start of a stage or the end of the run.

        Args:
            kind: `epoch`, `stage` or `end`.
            step: number of complete steps.
            content: metrics by name.
        """
        timing = {
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self._compute_speed(step), 1),
            "memory_mb": round(measure_peak_memory_mb(self._compute.device), 1),
        }
        record = {"kind": kind, "step": step, "epoch": self._length.count_epochs(step), "stage": self.stage, **content}
        self.latest_metrics = {**self.latest_metrics, **record, **timing}
        if self._compute.world.is_rank_zero:
            self._folder.metrics_log.append({**record, "timing": timing})

    def _report_step(self, step: int, loss: float) -> None:
        images_per_second = self._compute_speed(step)
        images_left = (self._length.steps - step) * self._length.batch_size
        self._listener.on_step(
            TrainProgress(
                stage=self.stage,
                epoch=min(self._length.count_epochs(step) + 1, self._length.epochs),
                epochs=self._length.epochs,
                step=step,
                steps=self._length.steps,
                loss=loss,
                cluster_information=self.latest_metrics.get("cluster_information"),
                images_per_second=images_per_second,
                seconds_left=images_left / max(images_per_second, 1e-9),
            )
        )

    def _compute_speed(self, step: int) -> float:
        """Return the mean number of images per second."""
        return step * self._length.batch_size / max(self.seconds, 1e-9)

    def _is_status_due(self) -> bool:
        return time.monotonic() - self._last_status >= _STATUS_SECONDS
