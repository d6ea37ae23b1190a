"""Metrics of an epoch, without classes: means of the loss terms, InfoNCE bounds (Eq. 2-3), and cluster statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from crlc.losses import cluster_information, infonce_bound
from crlc.training.metric_names import SUBHEAD_TERMS
from crlc.training.steps import StepOutcome
from crlc.training.subhead_selection import select_by_loss

_SUMMED_SUBHEAD_TERMS = (*SUBHEAD_TERMS, "clustering")
_FOUND_FRACTION = 0.1
"""A cluster counts as found when it holds at least this fraction of the images of a cluster of average size."""


class EpochTotals:
    """Sums over the steps of one epoch, stored in the checkpoint so that a run can resume within an epoch."""

    def __init__(self, subheads: int, clusters: int, device: torch.device, comparable: int | None = None) -> None:
        """Start with zeros.

        Args:
            subheads: number of subheads S.
            clusters: number of clusters C.
            device: device of the sums.
            comparable: number of leading subheads whose losses can be compared with each other; the others are
                trained with another λ1. All by default.
        """
        self._comparable = comparable
        self._sums: dict[str, Tensor] = {
            "steps": torch.zeros((), device=device),
            "cluster_steps": torch.zeros((), device=device),
            "feature_bound": torch.zeros((), device=device),
            "probability_bound": torch.zeros(subheads, device=device),
            "total": torch.zeros((), device=device),
            "feature": torch.zeros((), device=device),
            **{name: torch.zeros(subheads, device=device) for name in _SUMMED_SUBHEAD_TERMS},
            "joint": torch.zeros(subheads, clusters, clusters, device=device),
            "counts": torch.zeros(subheads, clusters, device=device),
        }

    def add(self, outcome: StepOutcome) -> None:
        """Add the outcome of one step."""
        terms = outcome.terms
        self._sums["steps"] += 1
        self._sums["feature_bound"] += infonce_bound(terms.feature.detach(), outcome.feature_samples)
        if outcome.probability_samples:
            self._sums["cluster_steps"] += 1
            self._sums["probability_bound"] += infonce_bound(terms.probability.detach(), outcome.probability_samples)
        for name in ("total", "feature", *_SUMMED_SUBHEAD_TERMS):
            self._sums[name] += getattr(terms, name).detach()
        self._sums["joint"] += outcome.joint
        self._sums["counts"] += outcome.counts

    def state_dict(self) -> dict[str, Tensor]:
        """Return a copy of the sums for the checkpoint."""
        return {name: value.clone() for name, value in self._sums.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from the sums of a checkpoint."""
        for name, value in state.items():
            self._sums[name].copy_(value)

    def find_lowest_loss_subhead(self) -> int:
        """Return the subhead with the lowest clustering loss among the comparable ones. No classes are used."""
        return select_by_loss(self._sums["clustering"][: self._comparable])

    def compute_metrics(self, subhead: int) -> dict[str, float | int]:
        """Return the metrics of the epoch by name.

        Args:
            subhead: the selected subhead, for the metrics of the C-head.
        """
        steps, cluster_steps = self._sums["steps"].clamp_min(1), self._sums["cluster_steps"].clamp_min(1)
        means = {name: self._sums[name] / steps for name in ("total", "feature", "feature_bound")}
        means |= {name: self._sums[name] / cluster_steps for name in (*_SUMMED_SUBHEAD_TERMS, "probability_bound")}
        counts = self._sums["counts"][subhead]
        information = cluster_information(self._sums["joint"] / cluster_steps)
        return {
            "loss": float(means["total"]),
            "feature": float(means["feature"]),
            **{name: float(means[name][subhead]) for name in SUBHEAD_TERMS},
            "probability_mean": float(means["probability"].mean()),
            "cluster_information": float(information[subhead]),
            "cluster_information_mean": float(information.mean()),
            "cluster_information_low": float(information.min()),
            "cluster_information_high": float(information.max()),
            "probability_bound": float(means["probability_bound"][subhead]),
            "feature_bound": float(means["feature_bound"]),
            "clusters": counts.numel(),
            **compute_size_metrics(counts),
            "subhead": subhead,
        }


def compute_size_metrics(counts: Tensor) -> dict[str, float | int]:
    """Return the number of clusters that are not almost empty, and the fraction of images in the largest.

    Args:
        counts: (K,) number of images of each cluster.
    """
    fractions = counts / counts.sum().clamp_min(1)
    return {
        "clusters_found": int((fractions >= _FOUND_FRACTION / fractions.numel()).sum()),
        "largest_share": float(fractions.max()),
    }
