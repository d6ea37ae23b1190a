"""The newest result of a run in short: what it is of, and how many images each cluster holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from crlc.errors import CrlcError
from crlc.training.run_folder import RunFolder

_FOUND_SHARE = 0.1


def cluster_sizes(run: RunFolder) -> list[int]:
    """By cluster number; empty while there is no result. Counted once for each result."""
    try:
        stamp = (run.path / "result.json").stat().st_mtime_ns
        return list(_counted(run.path, stamp))
    except (CrlcError, OSError, ValueError, KeyError):
        return []  # none yet, or damaged, which the pages that show clusters explain


def result_facts(run: RunFolder) -> dict[str, Any] | None:
    """About the newest result: after which step, of how many images, whether it is the last; none without one."""
    try:
        return run.result()[1]
    except (CrlcError, OSError, ValueError, KeyError):
        return None  # none yet, or damaged, which the pages that show clusters explain


def found_and_largest(sizes: Sequence[int]) -> tuple[str, str]:
    """How many clusters hold something to speak of, and the share of the largest, in words; dashes without a result."""
    if not sum(sizes):
        return "-", "-"
    even = sum(sizes) / len(sizes)
    found = sum(size >= _FOUND_SHARE * even for size in sizes)
    return f"{found} of {len(sizes)}", f"{max(sizes) / sum(sizes):.0%}"


@lru_cache(maxsize=64)
def _counted(folder: Path, _: int) -> tuple[int, ...]:
    arrays, _facts = RunFolder(folder).result()
    counts = np.bincount(arrays["cluster"], minlength=arrays["q"].shape[1])
    return tuple(counts.tolist())
