"""What the network gets: images and their views, or a frozen backbone's stored vectors and theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augment import Recipe, Share, make_view
from crlc.training.images import TrainingImages

Positions = NDArray[np.int64] | Tensor


class Inputs(Protocol):
    """Rows from 0 to N - 1, read a batch at a time."""

    def __len__(self) -> int:
        """N."""
        ...

    def read(self, positions: Positions) -> Tensor:
        """Some rows as they are, on the device."""
        ...

    def view(self, rows: Tensor, generator: torch.Generator, share: Share | None) -> Tensor:
        """A view of each row."""
        ...


@dataclass(frozen=True)
class ImageInputs:
    """Images from 0 to 1, (B, 3, H, W), and augmented copies of them."""

    images: TrainingImages
    recipe: Recipe
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        """N."""
        return len(self.images)

    def read(self, positions: Positions) -> Tensor:
        """Some images as they are, on the device."""
        return self.images.batch(positions, self.device).to(self.dtype)

    def view(self, rows: Tensor, generator: torch.Generator, share: Share | None) -> Tensor:
        """An augmented copy of each."""
        return make_view(rows.float(), self.recipe, generator, share).to(self.dtype)


@dataclass(frozen=True)
class FeatureInputs:
    """Projected vectors of a frozen backbone, (B, d), and copies with some components left out."""

    vectors: NDArray[np.float32]
    dropout: float
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        """N."""
        return len(self.vectors)

    def read(self, positions: Positions) -> Tensor:
        """Some vectors as they are, on the device."""
        return torch.from_numpy(self.vectors[np.asarray(positions)]).to(self.device, self.dtype)

    def view(self, rows: Tensor, generator: torch.Generator, share: Share | None) -> Tensor:
        """A copy of each without some of its components; the rest is enlarged to make up for them."""
        if not self.dropout:
            return rows
        start, total = share or Share(0, len(rows))
        throws = torch.rand(total, rows.shape[1], generator=generator)[start : start + len(rows)]
        kept = (throws >= self.dropout).to(rows) / (1 - self.dropout)
        return rows * kept
