"""What is read of a run's folder, checked, and what analysis keeps there: neighbours and maps, keyed to the result."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.index_file import load_index, save_index
from crlc.analysis.nearest import Neighbours
from crlc.analysis.neighbours import EXACT_INDEX_LIMIT, NeighbourIndex, neighbour_graph
from crlc.analysis.unit_rows import fingerprint
from crlc.errors import DamagedError, disk_full_explained
from crlc.files import write_file
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder

GRAPH_NEIGHBOURS = 15
"""Kept of each image: enough for UMAP and for every measure of quality."""

_NEEDED = {"ids": 1, "q": 2, "z": 2, "cluster": 1, "confidence": 1}
"""Arrays that every result has, and their number of dimensions."""

_GRAPH_VERSION = 1


class RunResult(NamedTuple):
    """The newest result of a run."""

    arrays: dict[str, NDArray[Any]]
    """Memory maps with one row per image."""

    facts: dict[str, Any]


def read_result(run: RunFolder) -> RunResult:
    """The newest result, looked at before anybody counts on it.

    Raises:
        NotFoundError: there is none yet.
        DamagedError: a file is cut, foreign, or does not fit the others.
    """
    try:
        arrays, facts = run.result()
    except (ValueError, EOFError, KeyError, TypeError) as error:
        raise _damaged(run, str(error).splitlines()[0] if str(error) else "a file is empty") from None
    missing = [name for name in _NEEDED if name not in arrays]
    if missing:
        raise _damaged(run, f"it has no {', '.join(missing)}")
    count = len(arrays["ids"])
    for name, array in arrays.items():
        if array.ndim != _NEEDED.get(name, array.ndim) or len(array) != count:
            raise _damaged(run, f"{name} has the shape {array.shape}, and there are {count:,} images")
    if count and not (np.all(np.diff(arrays["ids"]) > 0) and arrays["ids"][0] > 0):
        raise _damaged(run, "the ids of its images are not in order")
    if count and not 0 <= arrays["cluster"].min() <= arrays["cluster"].max() < arrays["q"].shape[1]:
        raise _damaged(run, "an image has a cluster that is none")
    return RunResult(arrays, facts)


def maps_folder(run: RunFolder) -> Path:
    """Where the maps of a run are kept."""
    return run.path / "maps"


def index_file(run: RunFolder) -> Path:
    """Where the approximate index of a large run is kept."""
    return run.path / "neighbours.index"


def kept_graph(run: RunFolder, z: NDArray[Any], report: ProgressCallback = no_progress) -> Neighbours:
    """The nearest images of every image of a result, from the run's folder; found now, and kept, if not there.

    Args:
        run: in whose folder.
        z: of all images of its result; at least two.
        report: told how far it is.

    Raises:
        DiskFullError: no space to keep it.
    """
    count = min(GRAPH_NEIGHBOURS, len(z) - 1)
    key = hashlib.sha256(f"{_GRAPH_VERSION} {count} {fingerprint(z)}".encode()).hexdigest()[:16]
    files = [run.path / f"graph-{key}.{part}.npy" for part in Neighbours._fields]
    found = _read_graph(files, (len(z), count))
    if found is not None:
        return found
    graph = neighbour_graph(z, count, report=report)
    with disk_full_explained(run.path):
        for file, part in zip(files, Neighbours._fields, strict=True):
            write_file(file, partial(np.save, arr=getattr(graph, part), allow_pickle=False))
    for old in run.path.glob("graph-*.npy"):
        if old not in files:  # of an earlier result
            old.unlink(missing_ok=True)
    return _read_graph(files, (len(z), count)) or graph


def open_index(
    run: RunFolder, z: NDArray[Any], *, exact: bool | None = None, report: ProgressCallback = no_progress
) -> NeighbourIndex:
    """What answers which images are nearest; one that is approximate is kept in the run's folder.

    Args:
        run: in whose folder.
        z: of all images of its result.
        exact: insist on one way; by default by the number of images.
        report: told how far building is.
    """
    exact = len(z) <= EXACT_INDEX_LIMIT if exact is None else exact
    if exact:
        return NeighbourIndex.build(z, exact=True)
    try:
        return load_index(index_file(run), z)
    except DamagedError:  # not there yet, or of an earlier result
        index = NeighbourIndex.build(z, exact=False, report=report)
        save_index(index, index_file(run))
        return index


def _read_graph(files: list[Path], shape: tuple[int, int]) -> Neighbours | None:
    try:
        positions, similarity = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files)
    except (OSError, ValueError, EOFError):
        return None
    if (positions.shape, similarity.shape) != (shape, shape) or positions.dtype != np.int64:
        return None
    return Neighbours(positions, similarity)


def _damaged(run: RunFolder, why: str) -> DamagedError:
    return DamagedError(f"The result of the run {run.id} cannot be used: {why}. Resume the run, or train again.")
