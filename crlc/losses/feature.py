"""Feature contrastive loss L_FC (Eq. 5) with the critic of Eq. 4.

Eq. 6 as printed in the paper has the wrong sign: Eq. 5 is implemented.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from crlc.losses.precision import full_precision


@full_precision
def feature_contrastive(z: Tensor, other_z: Tensor, temperature: float) -> Tensor:
    """L_FC in SimCLR form, Eq. 5: -log( exp f(z̃, z) / Σ_{i≠self} exp f(z̃, z_i) ), f(z̃, z) = z̃ᵀz / τ (Eq. 4).

    Symmetric (authors' code): the positive of each of the 2B rows is the other view of its image, its negatives are the
    other 2B - 2 rows.

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
    """L_FC in MemoryBank form, Eq. 5: the positive is the image's own row of the bank, the negatives are random rows.

    Args:
        z: unit vectors of one view, (B, D).
        own_rows: the images' rows of the bank before the update of this step, (B, D).
        drawn_rows: rows of other images, from `MemoryBank.draw_rows`, (M, D).
        temperature: τ.

    Returns:
        The mean over the batch, a scalar.
    """
    positive = (z * own_rows).sum(dim=1, keepdim=True)
    critic = torch.cat([positive, z @ drawn_rows.T], dim=1) / temperature
    return functional.cross_entropy(critic, torch.zeros(len(z), dtype=torch.long, device=z.device))
