"""How much memory a run has held."""

from __future__ import annotations

import sys

import psutil
import torch


def peak_memory_mb(device: torch.device) -> float:
    """The most memory this process (on a GPU: the device) has held, in megabytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset) / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
