"""The network: backbones, heads, and how they are put together. No training, no data."""
