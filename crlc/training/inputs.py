"""Inputs of the network and their views: images with augmentation, or stored features with dropout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augmentation import AugmentationRecipe, BatchSlice, WholeGeometry, make_view, to_images
from crlc.training.images import TrainingImages

Positions = NDArray[np.int64] | Tensor
"""Indices of rows from 0 to N - 1, (B,)."""

_ORIGINAL_SCALE = 256 / 224 * 4 / 3
"""Side of a stretched original relative to that of a view: a photograph of 4:3 then has the usual short side of 256
pixels for views of 224, so that crops are hardly enlarged."""


class ViewRows(NamedTuple):
    """Rows to draw views from."""

    values: Tensor
    """Images, (B, 3, H, W), or feature vectors, (B, d)."""

    aspects: Tensor | None = None
    """Width divided by height of each image, (B,), if the images are whole originals, stretched to squares."""


class Inputs(Protocol):
    """N input rows of the network, read a batch at a time."""

    def __len__(self) -> int:
        """Return the number of rows N."""
        ...

    def read(self, positions: Positions) -> Tensor:
        """Return the rows at the given positions, without augmentation, on the device."""
        ...

    def read_view_rows(self, positions: Positions) -> ViewRows:
        """Return the rows at the given positions, to draw views from."""
        ...

    def draw_view(self, rows: ViewRows, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return a random view of each row.

        Args:
            rows: result of `read_view_rows`.
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
    uses_originals: bool = False
    """Whether views are cut from the whole originals, which are decoded for every view, instead of the stored centre
    squares. The paper's random crops are."""

    def __len__(self) -> int:
        """Return the number of images N."""
        return len(self.images)

    def read(self, positions: Positions) -> Tensor:
        """Return the images at the given positions, without augmentation, on the device."""
        return self.images.load_batch(positions, self.device).to(self.dtype)

    def read_view_rows(self, positions: Positions) -> ViewRows:
        """Return the stored images at the given positions, or the originals, larger than a view."""
        if not self.uses_originals:
            return ViewRows(self.read(positions))
        assert self.images.read_whole is not None
        side = math.ceil(_ORIGINAL_SCALE * self.images.size)
        whole = self.images.read_whole(self.images.ids[np.asarray(positions)], side)
        pixels = to_images(torch.from_numpy(whole.pixels).to(self.device))
        return ViewRows(pixels, torch.from_numpy(whole.aspects).to(self.device))

    def draw_view(self, rows: ViewRows, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return an augmented copy of each image."""
        whole = None if rows.aspects is None else WholeGeometry(rows.aspects, self.images.size)
        return make_view(rows.values.float(), self.recipe, generator, batch_slice, whole).to(self.dtype)


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
        rows = torch.from_numpy(self.vectors[np.asarray(positions)])
        return rows.to(self.device, self.dtype, non_blocking=self.device.type == "cuda")

    def read_view_rows(self, positions: Positions) -> ViewRows:
        """Return the feature vectors at the given positions."""
        return ViewRows(self.read(positions))

    def draw_view(self, rows: ViewRows, generator: torch.Generator, batch_slice: BatchSlice | None) -> Tensor:
        """Return a copy of each vector with dropout; the remaining components are scaled up to compensate."""
        vectors = rows.values
        if not self.dropout:
            return vectors
        start, total = batch_slice or BatchSlice(0, len(vectors))
        draws = torch.rand(total, vectors.shape[1], generator=generator)[start : start + len(vectors)]
        mask = (draws >= self.dropout).to(vectors) / (1 - self.dropout)
        return vectors * mask
