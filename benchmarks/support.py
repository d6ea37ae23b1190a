"""Functions shared by the benchmarks: options, machine and commit, time, memory, and synthetic features."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from crlc.arrays import FloatArray, IntArray

ROOT = Path(__file__).resolve().parents[1]
DIMENSIONS = 128
_CHUNK_ROWS = 20_000


def create_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of the benchmark."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def describe_machine() -> str:
    """Return processor, number of cores and version of Python."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def read_commit() -> str:
    """Return the short hash of the checked-out commit, or `unknown`."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def measure_seconds(action: Callable[[], object]) -> float:
    """Return how long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def read_anonymous_bytes(pid: int) -> int:
    """Return the anonymous memory (RssAnon) of a process on Linux; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("RssAnon")), "RssAnon: 0 kB")
    return int(line.split()[1]) * 1024


class Peak:
    """Highest value of a repeated measurement."""

    def __init__(self) -> None:
        """Start at zero."""
        self.value = 0


@contextmanager
def record_peak(measure: Callable[[], int], interval_seconds: float) -> Iterator[Peak]:
    """Measure repeatedly in another thread while the context is open."""
    peak, done = Peak(), threading.Event()

    def poll() -> None:
        while not done.wait(interval_seconds):
            peak.value = max(peak.value, measure())

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def fit_exponent(counts: Iterable[int], seconds: Iterable[float]) -> float:
    """Return the slope of log time over log count."""
    return float(np.polyfit(np.log(list(counts)), np.log(list(seconds)), 1)[0])


def format_percentages(values: Iterable[float]) -> str:
    """Return fractions as percentages with one digit, separated by commas."""
    return ", ".join(f"{100 * value:.1f}" for value in values)


def make_features(count: int, folder: Path, *, hard: bool) -> tuple[np.ndarray[Any, Any], IntArray]:
    """Write synthetic features of unit norm to a file, in chunks.

    Clusters have unequal sizes; each is a normal distribution in a random subspace, with noise in all dimensions.

    Args:
        count: number of rows.
        folder: receives `z.npy`.
        hard: 20 clusters of 16 dimensions instead of 50 of 10.

    Returns:
        The features as a memory map, (count, 128), and the cluster of each row.
    """
    clusters, inner = (20, 16) if hard else (50, 10)
    random = np.random.default_rng(0)
    centres = random.normal(size=(clusters, DIMENSIONS)).astype(np.float32)
    directions = random.normal(size=(clusters, inner, DIMENSIONS)).astype(np.float32)
    fractions = random.dirichlet(np.full(clusters, 5.0))
    cluster = random.choice(clusters, size=count, p=fractions)
    z = np.lib.format.open_memmap(folder / "z.npy", mode="w+", dtype=np.float32, shape=(count, DIMENSIONS))
    for start in range(0, count, _CHUNK_ROWS):
        chunk = cluster[start : start + _CHUNK_ROWS]
        rows: FloatArray = centres[chunk] + 0.1 * random.normal(size=(len(chunk), DIMENSIONS)).astype(np.float32)
        for number in range(clusters):
            members = np.flatnonzero(chunk == number)
            rows[members] += 0.3 * random.normal(size=(len(members), inner)).astype(np.float32) @ directions[number]
        z[start : start + _CHUNK_ROWS] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    z.flush()
    return np.load(folder / "z.npy", mmap_mode="r"), cluster.astype(np.int64)
