"""The memory bank form of the contrastive losses: what the network said of each image, and its update, Eq. 10."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

FEATURE_DIMENSIONS = 128


class MemoryBank(nn.Module):
    """One row of probabilities (per subhead) and one of features for each image; part of the checkpoint."""

    probabilities: Tensor
    features: Tensor
    clusterable: Tensor | None

    def __init__(
        self,
        images: int,
        clusters: int,
        subheads: int,
        momentum: float,
        generator: torch.Generator,
        clusterable: Tensor | None = None,
    ) -> None:
        """Start with uniform probabilities and random unit features.

        Args:
            images: N.
            clusters: C.
            subheads: S.
            momentum: α, the share of a row that stays at an update.
            generator: for the random features.
            clusterable: positions of the images that L_cluster is for; none for all.
        """
        super().__init__()
        self.momentum = momentum
        self.register_buffer("clusterable", clusterable, persistent=False)
        random = torch.randn(images, FEATURE_DIMENSIONS, generator=generator)
        self.register_buffer("probabilities", torch.full((subheads, images, clusters), 1 / clusters))
        self.register_buffer("features", functional.normalize(random, dim=1))

    def rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities (S, K, C) and features (K, D) of some images, as they are now."""
        return self.probabilities[:, positions], self.features[positions]

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Probabilities (S, M, C) and features (M, D) of images drawn uniformly, with replacement."""
        drawn = self._throw(len(self.features), count, generator)
        if self.clusterable is None:
            return self.rows(drawn)
        clustered = self.clusterable[self._throw(len(self.clusterable), count, generator)]
        return self.probabilities[:, clustered], self.features[drawn]

    def _throw(self, images: int, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(images, (count,), generator=generator).to(self.features.device)

    @torch.no_grad()
    def update(self, positions: Tensor, q: Tensor, z: Tensor) -> None:
        """Move rows towards what the network says now: q_n <- α q_n + (1 - α) q̂_n; features back to unit length."""
        self.probabilities[:, positions] = torch.lerp(q.detach(), self.probabilities[:, positions], self.momentum)
        mixed = torch.lerp(z.detach(), self.features[positions], self.momentum)
        self.features[positions] = functional.normalize(mixed, dim=1)
