"""Measures of training progress without labels: mutual information between the clusters of two views."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crlc.losses.precision import full_precision


def entr(p: Tensor) -> Tensor:
    """Return -p log p of each element, 0 at p = 0 (`torch.special.entr` with a type)."""
    terms: Tensor = torch.special.entr(p)
    return terms


@full_precision
def joint_probability(q: Tensor, other_q: Tensor) -> Tensor:
    """Return the symmetrised joint matrix mean(q q̃ᵀ) of a batch.

    Args:
        q: probabilities of one view, not smoothed, (S, B, C).
        other_q: probabilities of the other view, not smoothed, (S, B, C).

    Returns:
        Joint probabilities of the clusters of two views, (S, C, C).
    """
    joint = torch.einsum("sbc,sbd->scd", q, other_q) / q.shape[1]
    return (joint + joint.transpose(1, 2)) / 2


def cluster_information(joint: Tensor) -> Tensor:
    """Return I(y; ỹ) / log C: mutual information between the clusters of two views, from 0 to 1.

    1 means confident, evenly used clusters. The value does not depend on the critic, the batch size or the form of the
    loss. It is shown to the user as the progress of a run.

    Args:
        joint: joint matrices, (..., C, C).
    """
    clusters = joint.shape[-1]
    joint = joint.double() if joint.device.type != "mps" else joint.float()
    marginal = entr(joint.sum(dim=-1)).sum(dim=-1)
    other_marginal = entr(joint.sum(dim=-2)).sum(dim=-1)
    joint_entropy = entr(joint).sum(dim=(-2, -1))
    return ((marginal + other_marginal - joint_entropy) / math.log(clusters)).clamp(0, 1).float()


def infonce_bound(loss: Tensor, contrasted: int) -> Tensor:
    """Return the lower bound log M - L on the mutual information, Eq. 2-3, in nats.

    Args:
        loss: L_PC or L_FC, of any shape.
        contrasted: M, the number of contrasted samples, the positive included.
    """
    return math.log(contrasted) - loss
