"""Checkpoints: everything a run needs to go on exactly, in one file, replaced whole, loaded without running code."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from crlc.errors import DamagedError
from crlc.files import write_file

_FORMAT = 1


def save_checkpoint(file: Path, content: dict[str, Any]) -> None:
    """Write under a temporary name, flush, rename: a crash leaves the one before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, partial(torch.save, {"format": _FORMAT, **content}))


def load_checkpoint(file: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint; only tensors and plain values are taken from it.

    Raises:
        DamagedError: it is not one, or is from a newer program.
    """
    try:
        content: dict[str, Any] = torch.load(file, map_location=device, weights_only=True)
    except Exception as error:
        raise DamagedError(f"{file} cannot be read ({error}). Delete it to start the run from the beginning.") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DamagedError(f"{file} is not a checkpoint that this program knows. Update CRLC Studio, or delete it.")
    return content
