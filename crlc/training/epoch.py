"""What an epoch adds up: the means of the loss terms and the meters that need no classes."""

from __future__ import annotations

import torch
from torch import Tensor

from crlc.losses import cluster_information, infonce_bound
from crlc.training.steps import StepOutcome

_CLUSTER_TERMS = ("probability", "entropy", "penalty", "clustering", "labels")
INFORMATION = ("cluster_information", *(f"cluster_information_{of}" for of in ("mean", "low", "high")))
"""Metrics that say something only of a C-head that is trained."""

_FOUND_SHARE = 0.1
"""A cluster counts as found when it holds at least this share of an even cluster's images."""


class EpochTotals:
    """Sums over the steps of one epoch. They are part of the checkpoint, so an epoch can be resumed half way."""

    def __init__(self, subheads: int, clusters: int, device: torch.device, comparable: int | None = None) -> None:
        """Start at zero; subheads beyond `comparable` have a loss of their own kind, and never the lowest."""
        self._comparable = comparable
        self._sums: dict[str, Tensor] = {
            "steps": torch.zeros((), device=device),
            "cluster_steps": torch.zeros((), device=device),
            "feature_bound": torch.zeros((), device=device),
            "probability_bound": torch.zeros(subheads, device=device),
            "total": torch.zeros((), device=device),
            "feature": torch.zeros((), device=device),
            "probability": torch.zeros(subheads, device=device),
            "entropy": torch.zeros(subheads, device=device),
            "penalty": torch.zeros(subheads, device=device),
            "clustering": torch.zeros(subheads, device=device),
            "labels": torch.zeros(subheads, device=device),
            "joint": torch.zeros(subheads, clusters, clusters, device=device),
            "counts": torch.zeros(subheads, clusters, device=device),
        }

    def add(self, outcome: StepOutcome) -> None:
        """Take in one step."""
        terms = outcome.terms
        self._sums["steps"] += 1
        self._sums["feature_bound"] += infonce_bound(terms.feature.detach(), outcome.feature_candidates)
        if outcome.cluster_candidates:
            self._sums["cluster_steps"] += 1
            self._sums["probability_bound"] += infonce_bound(terms.probability.detach(), outcome.cluster_candidates)
        for name in ("total", "feature", *_CLUSTER_TERMS):
            self._sums[name] += getattr(terms, name).detach()
        self._sums["joint"] += outcome.joint
        self._sums["counts"] += outcome.counts

    def state_dict(self) -> dict[str, Tensor]:
        """For the checkpoint."""
        return {name: value.clone() for name, value in self._sums.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """From the checkpoint."""
        for name, value in state.items():
            self._sums[name].copy_(value)

    def best_subhead(self) -> int:
        """The subhead with the lowest clustering loss: it speaks for the model. Classes have no say in it."""
        return int(self._sums["clustering"][: self._comparable].argmin())

    def metrics(self, best: int) -> dict[str, float | int]:
        """The epoch in numbers; those of the C-head are the speaking subhead's, `best`, unless they say mean."""
        steps, cluster_steps = self._sums["steps"].clamp_min(1), self._sums["cluster_steps"].clamp_min(1)
        means = {name: self._sums[name] / steps for name in ("total", "feature", "feature_bound")}
        means |= {name: self._sums[name] / cluster_steps for name in (*_CLUSTER_TERMS, "probability_bound")}
        shares = self._sums["counts"][best] / self._sums["counts"][best].sum().clamp_min(1)
        information = cluster_information(self._sums["joint"] / cluster_steps)
        clusters = shares.numel()
        return {
            "loss": float(means["total"]),
            "feature": float(means["feature"]),
            "probability": float(means["probability"][best]),
            "probability_mean": float(means["probability"].mean()),
            "entropy": float(means["entropy"][best]),
            "penalty": float(means["penalty"][best]),
            "labels": float(means["labels"][best]),
            "cluster_information": float(information[best]),
            "cluster_information_mean": float(information.mean()),
            "cluster_information_low": float(information.min()),
            "cluster_information_high": float(information.max()),
            "probability_bound": float(means["probability_bound"][best]),
            "feature_bound": float(means["feature_bound"]),
            "clusters_found": int((shares >= _FOUND_SHARE / clusters).sum()),
            "clusters": clusters,
            "largest_share": float(shares.max()),
            "subhead": best,
        }
