"""Probability contrastive loss L_PC (Eq. 7-9): InfoNCE on cluster probabilities, with a choice of critics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crlc.losses.information import entr
from crlc.losses.precision import full_precision

LOG_DOT = "log-dot"


def smooth(q: Tensor, smoothing: float) -> Tensor:
    """Mix probabilities with the uniform distribution, (1 - γ) q + γ / C, so that gradients do not saturate.

    Args:
        q: probabilities, (..., C).
        smoothing: γ.
    """
    return (1 - smoothing) * q + smoothing / q.shape[-1]


@full_precision
def probability_contrastive(q: Tensor, other_q: Tensor, critic: str, smoothing: float) -> Tensor:
    """Return L_PC in SimCLR form (Eq. 7-9).

    For each row r with positive p it is -log( exp f(q_r, q_p) / Σ_{i≠r} exp f(q_r, q_i) ).

    Both views are anchors, as in the authors' code: the positive of each of the 2B rows is the other view of its image,
    and its negatives are the other 2B - 2 rows.

    Args:
        q: probabilities of one view, (S, B, C).
        other_q: probabilities of the other view, (S, B, C).
        critic: f, one of `CRITICS`.
        smoothing: γ.

    Returns:
        One loss for each subhead, the mean over the 2B rows, (S,).
    """
    first, second = smooth(q, smoothing), smooth(other_q, smoothing)
    if critic == LOG_DOT:
        return _log_dot_contrastive(first, second)
    rows = torch.cat([first, second], dim=1)
    values = _PAIRWISE[critic](rows, rows)
    values = values.masked_fill(torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device), -torch.inf)
    positive = values.diagonal(offset=q.shape[1], dim1=1, dim2=2)  # the matrix is symmetric: one half is enough
    return values.logsumexp(dim=2).mean(dim=1) - positive.mean(dim=1)


@full_precision
def compute_critic(critic: str, p: Tensor, q: Tensor) -> Tensor:
    """Return the values of a critic f(p, q) for all pairs, (S, N, C) and (S, K, C) to (S, N, K), as A.2 plots them."""
    return _dot(p, q).log() if critic == LOG_DOT else _PAIRWISE[critic](p, q)


@full_precision
def bank_probability_contrastive(
    q: Tensor, own_rows: Tensor, drawn_rows: Tensor, critic: str, smoothing: float
) -> Tensor:
    """Return L_PC in MemoryBank form (Eq. 7-9).

    For each row r of `q` it is -log( exp f(q_r, q_p) / (exp f(q_r, q_p) + Σ_i exp f(q_r, q_i)) ): the positive p is the
    image's own row of the bank, the negatives i are the drawn rows.

    Args:
        q: probabilities of one view, (S, B, C).
        own_rows: the images' rows of the bank before the update of this step, (S, B, C).
        drawn_rows: rows of other images, from `MemoryBank.draw_rows`, (S, M, C).
        critic: f, one of `CRITICS`.
        smoothing: γ.

    Returns:
        One loss for each subhead, the mean over the batch, (S,).
    """
    rows, own, drawn = (smooth(part, smoothing) for part in (q, own_rows, drawn_rows))
    if critic == LOG_DOT:
        rows, own, drawn = (_to_float64(part) for part in (rows, own, drawn))
        positive = (rows * own).sum(dim=2)
        everything = positive + torch.einsum("sbc,sc->sb", rows, drawn.sum(dim=1))
        return (everything.log() - positive.log()).mean(dim=1).to(q.dtype)
    positive = _PAIRWISE[critic](rows.flatten(0, 1)[:, None], own.flatten(0, 1)[:, None]).view(rows.shape[:2])
    values = torch.cat([positive[..., None], _PAIRWISE[critic](rows, drawn)], dim=2)
    return (values.logsumexp(dim=2) - positive).mean(dim=1)


def _log_dot_contrastive(q: Tensor, other_q: Tensor) -> Tensor:
    """L_PC with the log-of-dot-product critic log(pᵀq), Eq. 9, without a matrix of pairs.

    exp f is the dot product itself, so the denominator is linear: Σ_{i≠r} q_rᵀq_i = q_rᵀ(Σ q) - q_rᵀq_r.
    This costs O(B C) instead of O(B² C). The sum and the difference need more digits than float32 has.
    """
    rows = _to_float64(torch.cat([q, other_q], dim=1))
    positive = (rows * rows.roll(q.shape[1], dims=1)).sum(dim=2)
    everything = torch.einsum("sbc,sc->sb", rows, rows.sum(dim=1))
    others = everything - rows.square().sum(dim=2)
    return (others.log() - positive.log()).mean(dim=1).to(q.dtype)


def _to_float64(values: Tensor) -> Tensor:
    """Return float64 values, where the device supports them (Apple GPUs do not)."""
    return values if values.device.type == "mps" else values.double()


def _dot(p: Tensor, q: Tensor) -> Tensor:
    """Critic pᵀq for all pairs: (S, N, C) and (S, K, C) to (S, N, K)."""
    return p @ q.transpose(1, 2)


def _negative_l2(p: Tensor, q: Tensor) -> Tensor:
    """Critic -|p - q|² for all pairs."""
    return 2 * _dot(p, q) - p.square().sum(dim=2)[:, :, None] - q.square().sum(dim=2)[:, None, :]


def _negative_js(p: Tensor, q: Tensor) -> Tensor:
    """Critic -JS(p, q), the negative Jensen-Shannon divergence (H(p) + H(q)) / 2 - H((p + q) / 2), for all pairs."""
    own = (entr(p).sum(dim=2)[:, :, None] + entr(q).sum(dim=2)[:, None, :]) / 2
    # One cluster at a time. The gradient still needs C matrices, so this critic is for few clusters and small batches.
    mixed = sum(
        (entr((p[:, :, None, c] + q[:, None, :, c]) / 2) for c in range(p.shape[2])),
        start=torch.zeros((), device=p.device),
    )
    return own - mixed


_PAIRWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"dot": _dot, "neg-l2": _negative_l2, "neg-js": _negative_js}
"""Critics by name: (S, N, C) and (S, K, C) to (S, N, K). They must be symmetric, f(p, q) = f(q, p)."""

CRITICS = (LOG_DOT, *_PAIRWISE)
"""Names of the critics of Fig. 3; the first is the default of the paper."""
