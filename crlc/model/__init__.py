"""The network: backbones, heads, and how they are put together. No training, no data."""

from crlc.model.backbones import BACKBONES
from crlc.model.network import CrlcNetwork, NetworkOutput

__all__ = ["BACKBONES", "CrlcNetwork", "NetworkOutput"]
