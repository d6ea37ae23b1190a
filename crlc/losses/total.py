"""Total loss: the weighted sums of Eq. 11 (unsupervised) and Eq. 12 (semi-supervised)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms: λ1, λ2 and λ3 of the paper, and the weight of all terms of the C-head."""

    entropy: float | Tensor
    """λ1: one number, or one for each subhead, (S,)."""

    feature: float
    """λ2."""

    labels: float = 0.0
    """λ3."""

    clustering: float = 1.0
    """Weight of all terms of the C-head: 1 in the paper, 0 to train the RL-head alone."""


@dataclass(frozen=True)
class LossTerms:
    """Every term of the loss, and their weighted sum."""

    total: Tensor
    """The sum that is minimised, a scalar."""

    probability: Tensor
    """L_PC, (S,)."""

    entropy: Tensor
    """Entropy H of the mean probabilities, (S,)."""

    penalty: Tensor
    """Penalty on logits out of bounds (authors' code), (S,)."""

    feature: Tensor
    """L_FC, a scalar; zero when it is not used."""

    labels: Tensor
    """Cross-entropy on labelled images, (S,); zero without labels."""

    clustering: Tensor
    """L_cluster = L_PC - λ1 H, plus λ3 CE with labels, (S,): used to select a subhead."""


def combine_loss_terms(
    weights: LossWeights,
    *,
    probability: Tensor,
    entropy: Tensor,
    penalty: Tensor,
    feature: Tensor | None = None,
    labels: Tensor | None = None,
) -> LossTerms:
    """Combine the terms of the loss by Eq. 11, or Eq. 12 with labels.

    L = clustering weight · mean over subheads of (L_PC - λ1 H + penalty + λ3 CE) + λ2 L_FC.

    The penalty is a choice of the authors' code; Eq. 11 and 12 do not have it.

    Args:
        weights: λ1, λ2, λ3 and the weight of the C-head.
        probability: L_PC of each subhead, (S,).
        entropy: H of each subhead, (S,).
        penalty: penalty on the logits of each subhead, (S,).
        feature: L_FC, a scalar; None when only the C-head is trained.
        labels: cross-entropy of each subhead, (S,); None without labels.
    """
    zero = torch.zeros((), device=probability.device)
    feature = zero if feature is None else feature
    labels = zero.expand_as(probability) if labels is None else labels
    clustering = probability - weights.entropy * entropy + weights.labels * labels
    c_head = (clustering + penalty).mean()
    total = weights.clustering * c_head + weights.feature * feature
    return LossTerms(total, probability, entropy, penalty, feature, labels, clustering)
