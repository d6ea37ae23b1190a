"""What goes wrong in clustering runs, said in plain words with what to try. No classes are needed to see it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_LARGEST_SHARE = 0.5
_STUCK_INFORMATION = 0.05
_YOUNG = 0.25
"""In the first part of a run clusters are still forming: nothing is said of them."""


@dataclass(frozen=True)
class HealthWarning:
    """One thing that a person should know."""

    kind: str
    """collapse, dead-clusters, stalled or small-batch."""

    text: str
    """What there is to see."""

    advice: str = ""
    """What to try, by the names of the settings: a terminal and a page have their own ways to set them."""

    def to_json(self) -> dict[str, str]:
        """For metrics.jsonl."""
        return asdict(self)


def shrunk_batch(wanted: int, images: int) -> list[HealthWarning]:
    """Said once, at the start of a run on fewer images than a batch."""
    if images >= wanted:
        return []
    text = f"There are only {images} images, so a batch has {images} instead of {wanted}; more images cluster better."
    return [HealthWarning("small-batch", text)]


def warnings_of(metrics: dict[str, Any], progress: float) -> list[HealthWarning]:
    """What an epoch's metrics warn of.

    Args:
        metrics: of one epoch.
        progress: how much of the run is over, from 0 to 1.
    """
    if progress < _YOUNG or metrics.get("cluster_information") is None:
        return []
    clusters, found, largest = metrics["clusters"], metrics["clusters_found"], metrics["largest_share"]
    if metrics["cluster_information"] < _STUCK_INFORMATION:
        text = (
            f"Views of an image say almost nothing of each other's cluster (cluster information "
            f"{metrics['cluster_information']:.2f}): nothing was learned yet."
        )
        return [HealthWarning("stalled", text, "Try a higher learning_rate, another augment, or more epochs.")]
    if largest > max(_LARGEST_SHARE, 2 / clusters):
        advice = "If the groups are not really that uneven, raise entropy_weight or choose another augment."
        return [HealthWarning("collapse", f"One cluster holds {largest:.0%} of the images.", advice)]
    if found < clusters:
        text = f"{clusters - found} of {clusters} clusters hold next to nothing."
        return [HealthWarning("dead-clusters", text, "Ask for fewer clusters, or raise entropy_weight.")]
    return []
