"""Choice of the compute device, and its peak memory. Importing this module does not import torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.errors import UsageError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
"""Names of devices that the CLI, the app and the estimator accept."""


def choose_device(name: str) -> torch.device:
    """Return the device with a name; `auto` is a GPU if there is one, else the CPU.

    Raises:
        UsageError: the name is not known, or this computer has no such device.
    """
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    found = [device for device, is_available in available.items() if is_available]
    if name == "auto":
        name = found[0]
    if name not in found:
        raise UsageError(f"device={name!r} is not available: this computer has {', '.join(sorted(found))}.")
    return torch.device(name)


def measure_peak_memory_mb(device: torch.device) -> float:
    """Return the peak memory of this process in megabytes: GPU memory with CUDA, else main memory."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset) / 1e6
    if sys.platform == "linux":
        # Not getrusage: its maximum includes that of the process that started this one.
        peak = read_peak_kilobytes(Path("/proc/self/status").read_text())
        if peak is not None:
            return peak * 1024 / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def read_peak_kilobytes(status: str) -> int | None:
    """Return the peak memory in the text of /proc/PID/status; `None` if it has none, as in the sandbox gVisor."""
    words = status.partition("VmHWM:")[2].split()
    return int(words[0]) if words else None
