"""The fixed map between a pretrained backbone and the heads: centre, unit length, principal components, one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

Chunks = Callable[[], Iterable[Tensor]]
"""Goes through all backbone vectors, a chunk (n, d) at a time; called once for each pass."""


class Projection(nn.Module):
    """x = (normalise(h - m) - m') V / s. Without the scale inputs of about 0.03 leave the logits at the saddle."""

    centre: Tensor
    second_centre: Tensor
    components: Tensor
    scale: Tensor

    def __init__(self, dimensions: int, kept: int) -> None:
        """Begin with nothing fitted; `fit` or a checkpoint fills it."""
        super().__init__()
        self.register_buffer("centre", torch.zeros(dimensions))
        self.register_buffer("second_centre", torch.zeros(dimensions))
        self.register_buffer("components", torch.zeros(dimensions, kept))
        self.register_buffer("scale", torch.ones(()))

    @property
    def is_fitted(self) -> bool:
        """Whether it has learned from vectors, here or in the run that this one goes on from."""
        return bool(self.components.any())

    def unit(self, h: Tensor) -> Tensor:
        """Centred and of unit length: neighbours are sought here."""
        return functional.normalize(h - self.centre, dim=1)

    def forward(self, h: Tensor) -> Tensor:
        """(B, d) to (B, kept)."""
        return (self.unit(h) - self.second_centre) @ self.components / self.scale

    @torch.no_grad()
    def fit(self, chunks: Chunks) -> None:
        """Learn from all vectors in two passes; memory does not grow with their number."""
        dimensions, kept = self.components.shape
        total, count = torch.zeros(dimensions, dtype=torch.float64), 0
        for chunk in chunks():
            total += chunk.double().sum(dim=0).cpu()
            count += len(chunk)
        self.centre.copy_(total / count)
        unit_total = torch.zeros(dimensions, dtype=torch.float64)
        products = torch.zeros(dimensions, dimensions, dtype=torch.float64)
        for chunk in chunks():
            unit = self.unit(chunk.to(self.centre)).cpu()
            unit_total += unit.double().sum(dim=0)
            products += (unit.T @ unit).double()
        mean = unit_total / count
        spread, axes = _eigen(products / count - torch.outer(mean, mean))
        self.second_centre.copy_(mean)
        self.components.copy_(axes.flip(1)[:, :kept])
        variance = spread.flip(0)[:kept].clamp_min(0).mean()
        self.scale.copy_(variance.sqrt().clamp_min(1e-6))


def _eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues from the smallest up, and their vectors as columns."""
    try:
        values, vectors = torch.linalg.eigh(symmetric)
    except RuntimeError:  # it gives up now and then where few images leave most eigenvalues at zero
        values, vectors = slow_eigen(symmetric)
    return values, vectors


def slow_eigen(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """The same by another algorithm (MRRR), which does not give up."""
    from scipy.linalg import eigh

    values, vectors = eigh(symmetric.numpy(), driver="evr")
    return torch.from_numpy(values), torch.from_numpy(vectors)
