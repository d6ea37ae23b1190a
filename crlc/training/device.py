"""Where to compute."""

from __future__ import annotations

import torch

from crlc.errors import UsageError

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes a GPU if there is one.

    Raises:
        UsageError: this computer does not have it.
    """
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if not there.get(name, False):
        found = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise UsageError(f"device={name!r} is not there. This computer has: {found}.")
    return torch.device(name)
