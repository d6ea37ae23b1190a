"""Inputs of the network and their views: images with augmentation, or stored features with dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augmentation import AugmentationRecipe, BatchSlice, make_view
from crlc.training.images import TrainingImages

Positions = NDArray[np.int64] | Tensor
"""Indices of rows from 0 to N - 1, (B,)."""


class Inputs(Protocol):
    """N input rows of the network, read a batch at a time."""

    def __len__(self) -> int:
        """Return the number of rows N."""
        ...

    def read(self, positions: Positions) -> Tensor:
        """Return the rows at the given positions, without augmentation, on the device."""
        ...

    def draw_view(self, rows: Tensor, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return a random view of each row.

        Args:
            rows: result of `read`.
            generator: the only source of randomness, on the CPU.
            batch_slice: position of these rows in a batch shared by several processes; `None` for a whole batch.
        """
        ...


@dataclass(frozen=True)
class ImageInputs:
    """Images with values from 0 to 1, (B, 3, H, W); a view is an augmented copy."""

    images: TrainingImages
    recipe: AugmentationRecipe
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        """Return the number of images N."""
        return len(self.images)

    def read(self, positions: Positions) -> Tensor:
        """Return the images at the given positions, without augmentation, on the device."""
        return self.images.load_batch(positions, self.device).to(self.dtype)

    def draw_view(self, rows: Tensor, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return an augmented copy of each image."""
        return make_view(rows.float(), self.recipe, generator, batch_slice).to(self.dtype)


@dataclass(frozen=True)
class FeatureInputs:
    """Projected features of a frozen backbone, (B, d); a view drops some components (dropout)."""

    vectors: NDArray[np.float32]
    dropout: float
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        """Return the number of feature vectors N."""
        return len(self.vectors)

    def read(self, positions: Positions) -> Tensor:
        """Return the feature vectors at the given positions, without dropout, on the device."""
        return torch.from_numpy(self.vectors[np.asarray(positions)]).to(self.device, self.dtype)

    def draw_view(self, rows: Tensor, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return a copy of each vector with dropout; the remaining components are scaled up to compensate."""
        if not self.dropout:
            return rows
        start, total = batch_slice or BatchSlice(0, len(rows))
        draws = torch.rand(total, rows.shape[1], generator=generator)[start : start + len(rows)]
        mask = (draws >= self.dropout).to(rows) / (1 - self.dropout)
        return rows * mask
