"""The network: backbones, projection, heads, and how they are put together. No training, no data."""

from crlc.model.backbones import SCRATCH_BACKBONES, Backbone, make_backbone
from crlc.model.network import CrlcNetwork, NetworkOutput

__all__ = ["SCRATCH_BACKBONES", "Backbone", "CrlcNetwork", "NetworkOutput", "make_backbone"]
