"""Progress of a run in training: state, speed, time left, warnings, and the sizes of its clusters so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from crlc.errors import CrlcError
from crlc.runs.folder import RunFolder
from crlc.runs.metrics_log import Record, summarize_metrics
from crlc.runs.results import read_result
from crlc.runs.state import RunState, RunStatus
from crlc.training.settings import TrainSettings
from crlc.training.stages import plan_stages

_ADVICE = {
    "stalled": "For the next run, try a higher Learning rate, another Augment, or more Epochs (Advanced settings).",
    "collapse": "If the true groups are more balanced, try a higher Entropy weight λ1 or another Augment "
    "for the next run (Advanced settings).",
    "dead-clusters": "For the next run, try fewer Clusters, or a higher Entropy weight λ1 (Advanced settings).",
}
"""Advice for each kind of warning, with the labels of the widgets on the Train page."""

_MIN_FOUND_FRACTION = 0.1
"""A cluster counts as found if it has at least this fraction of the images of an average cluster."""


@dataclass(frozen=True)
class TrainingProgressView:
    """State of a run in training, ready to show."""

    state: RunState
    message: str
    fraction: float
    """Finished fraction of all steps, or of the preparation while it runs."""

    headline: str
    """The current stage and epoch, or the preparation."""

    images_per_second: float | None
    seconds_left: float | None
    seconds: float
    warnings: tuple[str, ...] = ()
    """The newest warnings, each with advice."""

    latest: Record = field(default_factory=dict, compare=False)
    """Newest value of each metric."""

    @property
    def is_training(self) -> bool:
        """True if the run is queued, running or stopping."""
        return self.state.is_active


def build_progress_view(
    status: RunStatus, records: Sequence[Record], settings: Mapping[str, Any]
) -> TrainingProgressView:
    """Return the progress of a run.

    Args:
        status: content of its status file.
        records: content of its metrics log.
        settings: content of its settings in `run.json`.
    """
    summary = summarize_metrics(records)
    per_step = _measure_seconds_per_step(records, status.stage)
    is_estimated = status.state.is_active and per_step is not None and status.steps
    left = max(0, status.steps - status.step) * per_step if is_estimated and per_step is not None else None
    return TrainingProgressView(
        status.state,
        status.message,
        *_describe_progress(status, settings),
        summary.images_per_second,
        left,
        summary.seconds,
        tuple(map(_format_warning, summary.warnings)),
        summary.metrics,
    )


def _format_warning(warning: Mapping[str, str]) -> str:
    """Return the text of a warning, with advice for the Train page if there is any."""
    advice = _ADVICE.get(warning["kind"]) if "advice" in warning else None
    return f"{warning['text']} {advice}" if advice else warning["text"]


def format_stage_titles(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the titles of the stages of a run by name; the title of a single stage is empty."""
    names = [stage.name for stage in plan_stages(TrainSettings.from_json(dict(settings)))]
    if len(names) == 1:
        return {names[0]: ""}
    return {name: f"Stage {number} of {len(names)}: {name}" for number, name in enumerate(names, 1)}


def compute_first_result_epoch(settings: Mapping[str, Any]) -> int:
    """Return the epoch after which the first clusters can be shown."""
    known = TrainSettings.from_json(dict(settings))
    stages = plan_stages(known)
    epochs = sum(stage.settings.stages.epochs for stage in stages)
    every, before = max(1, epochs // known.run.evaluations), 0
    for stage in stages:
        first = (before // every + 1) * every
        if stage.trains_c_head and first <= before + stage.settings.stages.epochs:
            return first
        before += stage.settings.stages.epochs
    return epochs


def compute_result_epoch(metadata: Mapping[str, Any], status: RunStatus) -> int:
    """Return the epoch after which a result was written; of a run of an earlier version, assuming equal epochs."""
    if "epoch" in metadata:
        return int(metadata["epoch"])
    return int(metadata["step"]) * status.epochs // status.steps if status.steps else 0


def describe_partial_result(metadata: Mapping[str, Any], status: RunStatus) -> str:
    """Return a sentence about an intermediate result: its epoch, its images, and whether the run is training."""
    text = f"Not finished: clusters after epoch {compute_result_epoch(metadata, status):,} of {status.epochs:,}"
    if metadata["images"] < metadata["of"]:
        text += f", a sample of {metadata['images']:,} of {metadata['of']:,} images"
    return f"{text}; {'still training' if status.state.is_active else 'resume it on the Train page'}"


def _describe_progress(status: RunStatus, settings: Mapping[str, Any]) -> tuple[float, str]:
    if status.state.is_active and status.preparing is not None:
        if not status.total:
            return 0.0, f"{status.preparing} {status.done:,}" if status.done else status.preparing
        fraction = status.done / status.total
        return fraction, f"{status.preparing} {fraction:.0%}"
    fraction = min(1.0, status.step / status.steps) if status.steps else 0.0
    if status.state is RunState.QUEUED:
        return fraction, "Preparing"
    stage = format_stage_titles(settings).get(status.stage, "")
    is_in_epoch = status.state.is_active and status.step < status.steps
    epoch = status.epoch + 1 if is_in_epoch else status.epoch
    return fraction, ", ".join(filter(None, [stage, f"epoch {epoch:,} of {status.epochs:,}"])).capitalize()


def count_cluster_sizes(run: RunFolder) -> list[int]:
    """Return the number of images of each cluster in the newest result, cached per result; empty without one."""
    try:
        stamp = (run.path / "result.json").stat().st_mtime_ns
        return list(_count_sizes(run.path, stamp))
    except (CrlcError, OSError, ValueError, KeyError):
        return []  # there is no result yet, or it is damaged: the Clusters page shows the error


@lru_cache(maxsize=64)
def _count_sizes(folder: Path, _: int) -> tuple[int, ...]:
    arrays = read_result(RunFolder(folder)).arrays
    counts = np.bincount(arrays["cluster"], minlength=arrays["q"].shape[1])
    return tuple(counts.tolist())


def read_result_metadata(run: RunFolder) -> dict[str, Any] | None:
    """Return the metadata of the newest result: step, number of images, and whether it is final; `None` without one."""
    try:
        return run.open_result()[1]
    except (CrlcError, OSError, ValueError, KeyError):
        return None  # there is no result yet, or it is damaged: the Clusters page shows the error


def summarize_sizes(sizes: Sequence[int]) -> tuple[str, str]:
    """Return the number of found clusters and the fraction of images in the largest; dashes without a result."""
    if not sum(sizes):
        return "-", "-"
    mean = sum(sizes) / len(sizes)
    found = sum(size >= _MIN_FOUND_FRACTION * mean for size in sizes)
    return f"{found} of {len(sizes)}", f"{max(sizes) / sum(sizes):.0%}"


def _measure_seconds_per_step(records: Sequence[Record], stage: str) -> float | None:
    """Return the mean time of a step of the current stage; other stages may be faster or slower."""
    own = [record for record in records if record.get("stage") == stage and "timing" in record]
    if not own:
        return None
    steps = own[-1]["step"] - own[0]["step"]
    return (own[-1]["timing"]["seconds"] - own[0]["timing"]["seconds"]) / steps if steps > 0 else None
