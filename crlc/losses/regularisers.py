"""The terms beside the contrastive ones: entropy, the bound on the logits, cross-entropy on labels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from crlc.losses.information import entr
from crlc.losses.precision import full_precision

LOGIT_BOUND = 25.0
LOGIT_PENALTY = 0.01


@full_precision
def mean_entropy(q: Tensor) -> Tensor:
    """H of the batch's mean probabilities: large when the clusters are used evenly.

    Of the mean, never of each image: that would reward doubt.

    Args:
        q: probabilities, not smoothed, (S, B, C).

    Returns:
        One entropy for each subhead in nats, (S,).
    """
    return entr(q.mean(dim=1)).sum(dim=1)


@full_precision
def logit_penalty(logits: Tensor) -> Tensor:
    """½ · 0.01 · (|u| - 25)₊² summed over clusters: keeps logits in bounds and their gradient alive.

    Args:
        logits: (S, B, C).

    Returns:
        One penalty for each subhead, the mean over the batch, (S,).
    """
    excess = (logits.abs() - LOGIT_BOUND).clamp_min(0)
    return (0.5 * LOGIT_PENALTY * excess.square()).sum(dim=2).mean(dim=1)


@full_precision
def labelled_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy on labelled images, the last term of Eq. 12.

    Args:
        logits: of the labelled images, (S, L, C).
        labels: the outputs they should have, (L,).

    Returns:
        One loss for each subhead, the mean over the labelled images, (S,).
    """
    subheads, count, _ = logits.shape
    targets = labels.expand(subheads, count).flatten()
    losses = functional.cross_entropy(logits.flatten(0, 1), targets, reduction="none")
    return losses.view(subheads, count).mean(dim=1)
