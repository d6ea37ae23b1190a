"""Fixed projection between a frozen backbone and the heads: centring, normalisation, PCA and one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

ChunkReader = Callable[[], Iterable[Tensor]]
"""Function that returns an iterator over all backbone vectors in chunks, (n, d); called once for each pass."""


class Projection(nn.Module):
    """Projection x = (normalise(h - m) - m') V / s.

    Here m is the mean of the backbone vectors, m' the mean of the normalised vectors, V the principal components and s
    the scale. Without s, the inputs of the heads are about 0.03, and training does not leave the saddle point where all
    probabilities are equal.
    """

    centre: Tensor
    second_centre: Tensor
    components: Tensor
    scale: Tensor

    def __init__(self, dimensions: int, projected: int) -> None:
        """Create buffers of zeros; `fit` or a checkpoint fills them.

        Args:
            dimensions: length of the backbone vectors.
            projected: number of principal components.
        """
        super().__init__()
        self.register_buffer("centre", torch.zeros(dimensions))
        self.register_buffer("second_centre", torch.zeros(dimensions))
        self.register_buffer("components", torch.zeros(dimensions, projected))
        self.register_buffer("scale", torch.ones(()))

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called, or a fitted state was loaded."""
        return bool(self.components.any())

    def normalize(self, h: Tensor) -> Tensor:
        """Return centred vectors of unit length, (B, d)."""
        return functional.normalize(h - self.centre, dim=1)

    def forward(self, h: Tensor) -> Tensor:
        """Map (B, d) to (B, projected)."""
        return (self.normalize(h) - self.second_centre) @ self.components / self.scale

    @torch.no_grad()
    def fit(self, chunks: ChunkReader) -> None:
        """Fit the projection to all vectors in two passes, in constant memory."""
        dimensions, projected = self.components.shape
        total, count = torch.zeros(dimensions, dtype=torch.float64), 0
        for chunk in chunks():
            total += chunk.double().sum(dim=0).cpu()
            count += len(chunk)
        self.centre.copy_(total / count)
        unit_total = torch.zeros(dimensions, dtype=torch.float64)
        products = torch.zeros(dimensions, dimensions, dtype=torch.float64)
        for chunk in chunks():
            unit = self.normalize(chunk.to(self.centre)).cpu()
            unit_total += unit.double().sum(dim=0)
            products += (unit.T @ unit).double()
        mean = unit_total / count
        eigenvalues, axes = _decompose(products / count - torch.outer(mean, mean))
        self.second_centre.copy_(mean)
        self.components.copy_(axes.flip(1)[:, :projected])
        variance = eigenvalues.flip(0)[:projected].clamp_min(0).mean()
        self.scale.copy_(variance.sqrt().clamp_min(1e-6))


def _decompose(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues in ascending order, and eigenvectors as columns."""
    try:
        values, vectors = torch.linalg.eigh(symmetric)
    except RuntimeError:  # may not converge when there are few images and most eigenvalues are zero
        values, vectors = decompose_with_mrrr(symmetric)
    return values, vectors


def decompose_with_mrrr(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors by the MRRR algorithm, which is slower but always converges."""
    from scipy.linalg import eigh

    values, vectors = eigh(symmetric.numpy(), driver="evr")
    return torch.from_numpy(values), torch.from_numpy(vectors)
