"""Progress without labels: how much two views of an image tell of each other's cluster."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crlc.losses.precision import full_precision


def entr(p: Tensor) -> Tensor:
    """-p log p of each element, with 0 at 0 and a finite gradient there (torch's function, typed)."""
    terms: Tensor = torch.special.entr(p)
    return terms


@full_precision
def joint_probability(q: Tensor, other_q: Tensor) -> Tensor:
    """The symmetrised joint matrix mean(q q̃ᵀ) of a batch, not smoothed: (S, B, C) twice give (S, C, C)."""
    joint = torch.einsum("sbc,sbd->scd", q, other_q) / q.shape[1]
    return (joint + joint.transpose(1, 2)) / 2


def cluster_information(joint: Tensor) -> Tensor:
    """I(y; ỹ) / log C of joint matrices, (..., C, C): from 0 (views tell nothing) to 1 (sure, and evenly spread).

    Independent of critic, batch size and implementation; this is the meter people see.
    """
    clusters = joint.shape[-1]
    joint = joint.double() if joint.device.type != "mps" else joint.float()
    marginal = entr(joint.sum(dim=-1)).sum(dim=-1)
    other = entr(joint.sum(dim=-2)).sum(dim=-1)
    together = entr(joint).sum(dim=(-2, -1))
    return ((marginal + other - together) / math.log(clusters)).clamp(0, 1).float()


def infonce_bound(loss: Tensor, candidates: int) -> Tensor:
    """The lower bound log M - L on the mutual information, Eq. 2-3, in nats; M counts the positive too. Any shape."""
    return math.log(candidates) - loss
