"""The network: backbones, projection, heads and memory bank."""

from crlc.model.backbones import SCRATCH_BACKBONES, Backbone, build_backbone
from crlc.model.network import CrlcNetwork, NetworkOutput

__all__ = ["SCRATCH_BACKBONES", "Backbone", "CrlcNetwork", "NetworkOutput", "build_backbone"]
