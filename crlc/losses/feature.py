"""The feature contrastive loss L_FC, Eq. 5, with the critic of Eq. 4.

Eq. 6 as printed has the wrong sign.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from crlc.losses.precision import full_precision


@full_precision
def feature_contrastive(z: Tensor, other_z: Tensor, temperature: float) -> Tensor:
    """L_FC in SimCLR form: -log( exp f(z̃, z) / Σ_{i≠self} exp f(z̃, z_i) ), f(z̃, z) = z̃ᵀz / τ.

    Symmetric: each of the 2B rows looks for the other view of its image among the 2B - 1 other rows.

    Args:
        z: unit vectors of one view, (B, D).
        other_z: unit vectors of the other view, (B, D).
        temperature: τ.

    Returns:
        The mean over all rows, a scalar.
    """
    rows = torch.cat([z, other_z])
    critic = rows @ rows.T / temperature
    critic = critic.masked_fill(torch.eye(len(rows), dtype=torch.bool, device=rows.device), -torch.inf)
    other_view = torch.arange(len(rows), device=rows.device).roll(len(z))
    return functional.cross_entropy(critic, other_view)


@full_precision
def bank_feature_contrastive(z: Tensor, own_rows: Tensor, drawn_rows: Tensor, temperature: float) -> Tensor:
    """L_FC in MemoryBank form: the positive is the image's own row of the bank, the negatives are drawn.

    Args:
        z: unit vectors of one view, (B, D).
        own_rows: the images' rows as they were before this step, (B, D).
        drawn_rows: rows drawn from the whole bank, (M, D).
        temperature: τ.

    Returns:
        The mean over the batch, a scalar.
    """
    positive = (z * own_rows).sum(dim=1, keepdim=True)
    critic = torch.cat([positive, (z @ drawn_rows.T)], dim=1) / temperature
    return functional.cross_entropy(critic, torch.zeros(len(z), dtype=torch.long, device=z.device))
