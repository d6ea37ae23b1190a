"""The weighted sums of Eq. 11 and Eq. 12, term by term."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossWeights:
    """λ1, λ2 and λ3, and the weight of all that concerns the C-head."""

    entropy: float | Tensor
    """λ1, or one for each subhead, (S,)."""

    feature: float
    labels: float = 0.0
    clustering: float = 1.0


@dataclass(frozen=True)
class LossTerms:
    """Every term of the loss, and their weighted sum."""

    total: Tensor
    """What is minimised, a scalar."""

    probability: Tensor
    """L_PC, (S,)."""

    entropy: Tensor
    """H of the mean probabilities, (S,)."""

    penalty: Tensor
    """What logits out of bounds cost, (S,)."""

    feature: Tensor
    """L_FC, a scalar; zero where it is not used."""

    labels: Tensor
    """Cross-entropy on labelled images, (S,); zero where there are none."""

    clustering: Tensor
    """L_cluster = L_PC - λ1 H, plus λ3 CE where there are labels, (S,): the lowest of an epoch speaks for the model."""


def combine(
    weights: LossWeights,
    *,
    probability: Tensor,
    entropy: Tensor,
    penalty: Tensor,
    feature: Tensor | None = None,
    labels: Tensor | None = None,
) -> LossTerms:
    """L = mean over subheads of (L_PC - λ1 H + penalty + λ3 CE) + λ2 L_FC: Eq. 11, and Eq. 12 with labels.

    The first part is weighted too: 1 in the paper, 0 to train the RL-head alone.

    Args:
        weights: λ1, λ2, λ3.
        probability: L_PC of each subhead, (S,).
        entropy: H of each subhead, (S,).
        penalty: on the logits of each subhead, (S,).
        feature: L_FC, a scalar; none when only the C-head is trained.
        labels: cross-entropy of each subhead, (S,); none without labels.
    """
    zero = torch.zeros((), device=probability.device)
    feature = zero if feature is None else feature
    labels = zero.expand_as(probability) if labels is None else labels
    clustering = probability - weights.entropy * entropy + weights.labels * labels
    c_head = (clustering + penalty).mean()
    total = weights.clustering * c_head + weights.feature * feature
    return LossTerms(total, probability, entropy, penalty, feature, labels, clustering)
