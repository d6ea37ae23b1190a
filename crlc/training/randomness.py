"""Random generators that depend only on the seed and the position in the run: resuming needs no generator state."""

from __future__ import annotations

import hashlib

import torch


def make_generator(seed: int, purpose: str, number: int = 0) -> torch.Generator:
    """Return a CPU generator for one purpose, independent of all others.

    Args:
        seed: the run's seed.
        purpose: name of the random draws, such as `order` or `step`.
        number: index of the step or epoch of the draws.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
