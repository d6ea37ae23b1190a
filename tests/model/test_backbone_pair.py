"""Pair of backbones: each receives images with its own normalisation."""

from __future__ import annotations

import torch
from torch import nn

from crlc.model.backbone_pair import BackbonePair


class _ChannelMeans(nn.Module):
    """Backbone whose vector is the mean of each channel."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3))


def test_second_backbone_receives_its_own_normalisation():
    first, second = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)), ((0.1, 0.2, 0.3), (0.2, 0.4, 0.8))
    pair = BackbonePair(_ChannelMeans(), _ChannelMeans(), first, second)
    image = torch.tensor([0.7, 0.6, 0.7]).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    found = pair((image - 0.5) / 0.5)
    # (0.4, 0.2, 0.4) has length 0.6; ((0.7 - 0.1) / 0.2, (0.6 - 0.2) / 0.4, (0.7 - 0.3) / 0.8) = (3, 1, 0.5).
    length = (3**2 + 1**2 + 0.5**2) ** 0.5
    expected = torch.tensor([[2 / 3, 1 / 3, 2 / 3, 3 / length, 1 / length, 0.5 / length]])
    torch.testing.assert_close(found, expected)
