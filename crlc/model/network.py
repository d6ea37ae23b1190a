"""The whole network on one screen: backbone, RL-head, C-head."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from crlc.model.backbones import BACKBONES
from crlc.model.heads import ClusteringHead, RepresentationHead


class NetworkOutput(NamedTuple):
    """What the network says of a batch."""

    h: Tensor
    """Backbone vectors, (B, d)."""

    z: Tensor
    """Unit vectors of the RL-head, (B, 128)."""

    logits: Tensor
    """Of all subheads, (S, B, C)."""

    @property
    def q(self) -> Tensor:
        """Cluster probabilities, (S, B, C), in float32."""
        return self.logits.float().softmax(dim=2)


class CrlcNetwork(nn.Module):
    """Images to backbone vectors, and from those to features and cluster logits."""

    def __init__(self, backbone: str, image_size: int, clusters: int, subheads: int) -> None:
        """Make an untrained network; torch's own random numbers decide its weights."""
        super().__init__()
        self.backbone, dimensions = BACKBONES[backbone](image_size)
        self.rl_head = RepresentationHead(dimensions)
        self.c_head = ClusteringHead(dimensions, clusters, subheads)

    def forward(self, images: Tensor) -> NetworkOutput:
        """(B, 3, H, W), normalised, to everything."""
        h = self.backbone(images)
        return NetworkOutput(h, self.rl_head(h), self.c_head(h))
