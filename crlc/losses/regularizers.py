"""Terms of the loss besides the contrastive ones: entropy (Eq. 11), logit penalty, cross-entropy (Eq. 12)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from crlc.losses.information import entr
from crlc.losses.precision import full_precision

LOGIT_BOUND = 25.0
"""The paper keeps logits within [-25, 25]."""

LOGIT_PENALTY = 0.01
"""Weight of the penalty on the excess (authors' code)."""


@full_precision
def mean_entropy(q: Tensor) -> Tensor:
    """Return the entropy H of the mean probabilities of a batch, Eq. 11: high when the clusters are used evenly.

    The entropy of the mean, not of each image: the latter would reward uncertainty.

    Args:
        q: probabilities, not smoothed, (S, B, C).

    Returns:
        One entropy for each subhead in nats, (S,).
    """
    # The derivative of -p log p is infinite at 0. Probabilities underflow to 0 if logits differ by more than 100, as
    # they may before the penalty reduces them: the gradient would be NaN.
    mean = q.mean(dim=1)
    return entr(mean.clamp_min(torch.finfo(mean.dtype).tiny)).sum(dim=1)


@full_precision
def logit_penalty(logits: Tensor) -> Tensor:
    """Return ½ · 0.01 · (|u| - 25)₊², summed over clusters: a soft bound that keeps the gradient, unlike a clamp.

    The bound of 25 is the paper's; the quadratic penalty and its weight are the authors' code.

    Args:
        logits: (S, B, C).

    Returns:
        One penalty for each subhead, the mean over the batch, (S,).
    """
    excess = (logits.abs() - LOGIT_BOUND).clamp_min(0)
    return (0.5 * LOGIT_PENALTY * excess.square()).sum(dim=2).mean(dim=1)


@full_precision
def labelled_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy on labelled images, the last term of Eq. 12.

    Args:
        logits: logits of the labelled images, (S, L, C).
        labels: the cluster that each should have, (L,).

    Returns:
        One loss for each subhead, the mean over the labelled images, (S,).
    """
    subheads, count, _ = logits.shape
    targets = labels.expand(subheads, count).flatten()
    losses = functional.cross_entropy(logits.flatten(0, 1), targets, reduction="none")
    return losses.view(subheads, count).mean(dim=1)


@full_precision
def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy with target probabilities, the loss of pseudo-labels (not from the paper).

    Args:
        logits: logits of images, (S, B, C).
        targets: target probabilities of the images, (B, C).

    Returns:
        One loss for each subhead, the mean over the images, (S,).
    """
    return -(targets * logits.log_softmax(dim=2)).sum(dim=2).mean(dim=1)
