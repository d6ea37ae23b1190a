"""Two backbones whose vectors are concatenated."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

SEPARATOR = "+"
"""Joins the names of the two backbones, such as default+efficientnet-lite1."""

_Channels = tuple[float, float, float]
UNIT_NORMALIZATION: tuple[_Channels, _Channels] = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
"""Mean and standard deviation of a pair without weights: its state, once loaded, replaces them."""


class BackbonePair(nn.Module):
    """Module that concatenates the unit vectors of two backbones.

    Unit length gives both the same weight: the vectors of different networks differ in scale by orders of magnitude.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        first: nn.Module,
        second: nn.Module,
        first_normalization: tuple[_Channels, _Channels],
        second_normalization: tuple[_Channels, _Channels],
    ) -> None:
        """Store the backbones.

        Args:
            first: a backbone.
            second: another backbone.
            first_normalization: mean and standard deviation per channel of the images that this module receives, which
                are those of the first backbone.
            second_normalization: mean and standard deviation for which the second backbone was trained.
        """
        super().__init__()
        self.first, self.second = first, second
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in first_normalization)
        other_mean, other_std = (torch.tensor(values).view(1, 3, 1, 1) for values in second_normalization)
        self.register_buffer("scale", std / other_std)
        self.register_buffer("shift", (mean - other_mean) / other_std)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (B, 3, H, W) to (B, d1 + d2)."""
        vectors = (self.first(images), self.second(images * self.scale + self.shift))
        return torch.cat([functional.normalize(cast(Tensor, one), dim=1) for one in vectors], dim=1)
