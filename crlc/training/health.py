"""Warnings about runs that go wrong: collapsed, empty or random clusters. They need no ground-truth classes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_MAX_CLUSTER_FRACTION = 0.5
_MIN_CLUSTER_INFORMATION = 0.05
_SILENT_PROGRESS = 0.25
"""Initial fraction of a run without warnings: the clusters are still forming."""


@dataclass(frozen=True)
class HealthWarning:
    """A problem of a run that the user should know about."""

    kind: str
    """collapse, dead-clusters, stalled or small-batch."""

    text: str
    """The problem, in one sentence with its numbers."""

    advice: str = ""
    """Advice in terms of setting names; the app replaces it with the labels of its form."""

    def to_json(self) -> dict[str, str]:
        """Return the content for metrics.jsonl."""
        return asdict(self)


def find_batch_warnings(batch_size: int, images: int, available: int) -> list[HealthWarning]:
    """Return a warning if fewer images are available for a batch than requested.

    Args:
        batch_size: requested number of images per step.
        images: number of images of the run.
        available: number of them that one batch can hold; a memory bank needs others as negatives.
    """
    if available >= batch_size:
        return []
    text = f"There are only {images} images, so a batch has {available} instead of {batch_size}."
    return [HealthWarning("small-batch", text)]


def find_warnings(metrics: dict[str, Any], progress: float) -> list[HealthWarning]:
    """Return the warnings for the metrics of one epoch.

    Args:
        metrics: metrics of one epoch.
        progress: finished fraction of the run, from 0 to 1.
    """
    if progress < _SILENT_PROGRESS or metrics.get("cluster_information") is None:
        return []
    clusters, found, largest = metrics["clusters"], metrics["clusters_found"], metrics["largest_share"]
    if metrics["cluster_information"] < _MIN_CLUSTER_INFORMATION:
        text = (
            f"Two views of an image rarely get the same cluster (cluster information "
            f"{metrics['cluster_information']:.2f}): the network has not learned clusters yet."
        )
        return [HealthWarning("stalled", text, "Try a higher learning_rate, another augment, or more epochs.")]
    if largest > max(_MAX_CLUSTER_FRACTION, 2 / clusters):
        advice = "Unless the data are that unbalanced, raise entropy_weight or choose another augment."
        return [HealthWarning("collapse", f"One cluster holds {largest:.0%} of the images.", advice)]
    if found < clusters:
        text = f"{clusters - found} of {clusters} clusters are almost empty."
        return [HealthWarning("dead-clusters", text, "Choose fewer clusters, or raise entropy_weight.")]
    return []
