"""Memory bank for the MemoryBank form of the contrastive losses, with its update rule (Eq. 10)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

FEATURE_DIMENSIONS = 128


class MemoryBank(nn.Module):
    """Moving averages of every image's probabilities (per subhead) and features; part of the checkpoint."""

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
        """Initialise uniform probabilities and random unit features.

        Args:
            images: number of images N.
            clusters: number of clusters C.
            subheads: number of subheads S.
            momentum: weight α of the old row in an update (Eq. 10; studied in A.10.2).
            generator: draws the random features.
            clusterable: indices of the images that L_cluster is computed for; `None` for all. The paper leaves out the
                unlabelled images of STL10.
        """
        super().__init__()
        self.momentum = momentum
        self.register_buffer("clusterable", clusterable, persistent=False)
        random = torch.randn(images, FEATURE_DIMENSIONS, generator=generator)
        self.register_buffer("probabilities", torch.full((subheads, images, clusters), 1 / clusters))
        self.register_buffer("features", functional.normalize(random, dim=1))

    def read_rows(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the current probabilities (S, K, C) and features (K, D) of the images at these indices."""
        return self.probabilities[:, positions], self.features[positions]

    def draw_rows(self, count: int, generator: torch.Generator, excluded: Tensor) -> tuple[Tensor, Tensor]:
        """Return probabilities (S, M, C) and features (M', D) of different images, drawn uniformly from the others.

        Probabilities are drawn from the clusterable images only, features from all images. There are `count` rows of
        each, or all others if these are fewer.

        Args:
            count: largest number of rows.
            generator: draws the images, on the CPU.
            excluded: indices of the images of the batch, whose own rows must not be negatives, (B,).
        """
        is_other = torch.ones(len(self.features), dtype=torch.bool)
        is_other[excluded.cpu()] = False
        drawn = self._draw_indices(is_other.nonzero()[:, 0], count, generator)
        if self.clusterable is None:
            return self.read_rows(drawn)
        others = self.clusterable.cpu()
        clustered = self._draw_indices(others[is_other[others]], count, generator)
        return self.probabilities[:, clustered], self.features[drawn]

    def _draw_indices(self, candidates: Tensor, count: int, generator: torch.Generator) -> Tensor:
        order = torch.randperm(len(candidates), generator=generator)[:count]
        return candidates[order].to(self.features.device)

    @torch.no_grad()
    def update(self, positions: Tensor, q: Tensor, z: Tensor) -> None:
        """Update rows by Eq. 10, q_n <- α q_n + (1 - α) q̂_n; normalise the features again.

        Args:
            positions: indices of the images, (K,).
            q: new probabilities, (S, K, C).
            z: new features, (K, D).
        """
        self.probabilities[:, positions] = torch.lerp(q.detach(), self.probabilities[:, positions], self.momentum)
        mixed = torch.lerp(z.detach(), self.features[positions], self.momentum)
        self.features[positions] = functional.normalize(mixed, dim=1)
