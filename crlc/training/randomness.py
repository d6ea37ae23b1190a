"""Chance that depends only on the seed and the place in the run: resuming needs nothing but the step."""

from __future__ import annotations

import hashlib

import torch


def generator_for(seed: int, purpose: str, number: int = 0) -> torch.Generator:
    """A generator for one purpose at one step or epoch, independent of every other."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
