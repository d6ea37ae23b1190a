"""Validated result of a run, and the neighbour graph and index that analysis stores beside it."""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.neighbours.index import EXACT_INDEX_LIMIT, NeighbourIndex
from crlc.analysis.neighbours.index_file import load_index, save_index
from crlc.analysis.normalization import fingerprint_features
from crlc.array_files import load_array
from crlc.errors import AccessError, DamagedError, explain_disk_full, explain_system_error
from crlc.files import write_file
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder

GRAPH_NEIGHBOURS = 15
"""Stored neighbours of each image: enough for UMAP and for every quality measure."""

_REQUIRED_ARRAYS = {"ids": (1, "iu"), "q": (2, "f"), "z": (2, "f"), "cluster": (1, "iu"), "confidence": (1, "f")}
"""Arrays of every result, with their number of dimensions and the kinds of their NumPy types."""

_OPTIONAL_ARRAYS = {"by_subhead": (2, "iu"), "h": (2, "f")}
"""The same for arrays that some results have."""

_GRAPH_VERSION = 1
_MAX_PROBABILITY = 1.001  # sums of rounded probabilities may be above 1


class RunResult(NamedTuple):
    """Arrays and metadata of the newest result of a run."""

    arrays: dict[str, NDArray[Any]]
    """Memory maps with one row per image."""

    metadata: dict[str, Any]
    """Content of result.json."""


def read_result(run: RunFolder) -> RunResult:
    """Open and validate the newest result of a run.

    Raises:
        NotFoundError: the run has no result yet.
        DamagedError: an array is missing or incomplete, or does not fit the others.
    """
    try:
        arrays, metadata = run.open_result()
    except DamagedError as error:
        raise _damaged(run, error.message.rstrip(".")) from None
    except PermissionError as error:
        raise AccessError.for_path(error.filename, "read") from None
    except (ValueError, OSError) as error:
        explained = explain_system_error(error, run.path)
        if explained is not None:
            raise explained from None
        raise _damaged(run, str(error).splitlines()[0] if str(error) else "a file is empty") from None
    _check_arrays(run, arrays)
    selected = metadata.get("subhead", 0)
    if "by_subhead" in arrays and not 0 <= selected < arrays["by_subhead"].shape[1]:
        raise _damaged(run, f"its selected subhead is {selected}, but there are {arrays['by_subhead'].shape[1]}")
    folder = run.path / metadata["folder"]
    for name, is_valid in (
        ("confidence", _has_probabilities(arrays["confidence"])),
        ("q", _has_stored_probabilities(folder / "q.npy", arrays["q"])),
    ):
        if not is_valid:
            raise _damaged(run, f"a value in {folder / name}.npy is not a probability from 0 to 1")
    return RunResult(arrays, metadata)


def _check_arrays(run: RunFolder, arrays: dict[str, NDArray[Any]]) -> None:
    """Check types, shapes and ranges of the arrays of a result.

    Raises:
        DamagedError: an array is missing, or does not fit the others.
    """
    missing = [name for name in _REQUIRED_ARRAYS if name not in arrays]
    if missing:
        raise _damaged(run, f"{', '.join(missing)} missing")
    count = arrays["ids"].size
    for name, array in arrays.items():
        dimensions, kinds = (_REQUIRED_ARRAYS | _OPTIONAL_ARRAYS).get(name, (array.ndim, array.dtype.kind))
        if array.dtype.kind not in kinds or not array.dtype.isnative:
            raise _damaged(run, f"{name} has the type {array.dtype}")
        if array.ndim != dimensions or not array.ndim or len(array) != count:
            raise _damaged(run, f"{name} has the shape {array.shape}, but there are {count:,} images")
    if count and not (np.all(np.diff(arrays["ids"]) > 0) and arrays["ids"][0] > 0):
        raise _damaged(run, "the image ids are not ascending")
    for name in ("cluster", "by_subhead"):
        if name in arrays and not _is_below(arrays[name], arrays["q"].shape[1]):
            raise _damaged(run, f"a cluster number in {name}.npy is out of range")


def get_maps_folder(run: RunFolder) -> Path:
    """Return the folder for the maps of a run."""
    return run.path / "maps"


def get_index_file(run: RunFolder) -> Path:
    """Return the path for the approximate neighbour index of a large run."""
    return run.path / "neighbours.index"


def load_or_build_graph(run: RunFolder, z: NDArray[Any], report: ProgressCallback = no_progress) -> Neighbours:
    """Return the nearest neighbours of every image of a result. If they are not stored yet, find and store them.

    Args:
        run: run that stores the graph.
        z: features of all images of its result, (N, D); at least two.
        report: receives the progress.

    Raises:
        DiskFullError: there is no space for the graph.
    """
    count = min(GRAPH_NEIGHBOURS, len(z) - 1)
    key = hashlib.sha256(f"{_GRAPH_VERSION} {count} {fingerprint_features(z)}".encode()).hexdigest()[:16]
    files = [run.path / f"graph-{key}.{part}.npy" for part in Neighbours._fields]
    stored = _read_graph(files, (len(z), count))
    if stored is not None:
        return stored
    graph = build_neighbour_graph(z, count, report=report)
    with explain_disk_full(run.path):
        for file, part in zip(files, Neighbours._fields, strict=True):
            write_file(file, partial(np.save, arr=getattr(graph, part), allow_pickle=False))
    for old in run.path.glob("graph-*.npy"):
        if old not in files:  # of an earlier result
            old.unlink(missing_ok=True)
    return _read_graph(files, (len(z), count)) or graph


def open_neighbour_index(
    run: RunFolder, z: NDArray[Any], *, exact: bool | None = None, report: ProgressCallback = no_progress
) -> NeighbourIndex:
    """Return an index for nearest-neighbour queries; an approximate one is stored in the run folder.

    Args:
        run: run that stores the index.
        z: features of all images of its result, (N, D).
        exact: search exactly or approximately; by default, depending on the number of images.
        report: receives the progress of building an index.
    """
    exact = len(z) <= EXACT_INDEX_LIMIT if exact is None else exact
    if exact:
        return NeighbourIndex.build(z, exact=True)
    try:
        return load_index(get_index_file(run), z)
    except DamagedError:  # missing, or of an earlier result
        index = NeighbourIndex.build(z, exact=False, report=report)
        save_index(index, get_index_file(run))
        return index


def _read_graph(files: list[Path], shape: tuple[int, int]) -> Neighbours | None:
    try:
        positions, similarity = (load_array(file, is_mapped=True) for file in files)
    except (OSError, ValueError):
        return None
    if (positions.shape, similarity.shape) != (shape, shape) or positions.dtype != np.int64:
        return None
    if similarity.dtype.kind != "f" or not _is_below(positions, shape[0]):
        return None
    return Neighbours(positions, similarity)


def _is_below(numbers: NDArray[Any], limit: int) -> bool:
    return not numbers.size or bool(0 <= numbers.min() <= numbers.max() < limit)


def _has_probabilities(values: NDArray[Any]) -> bool:
    """Return whether all values are from 0 to 1; NaN is not."""
    return not values.size or bool(values.min() >= 0 and values.max() <= _MAX_PROBABILITY)


def _has_stored_probabilities(file: Path, values: NDArray[Any]) -> bool:
    """Return whether all values of a mapped array file are from 0 to 1.

    The answer is cached, because pages open a result in every rerun: 100,000 images and 10 clusters take 1 ms, but a
    million images and 100 clusters 250 ms.
    """
    try:
        return _check_stored_probabilities(file, file.stat().st_mtime_ns)
    except OSError:  # a newer result has replaced it in the meantime
        return _has_probabilities(values)


@lru_cache(maxsize=128)
def _check_stored_probabilities(file: Path, _: int) -> bool:
    return _has_probabilities(load_array(file, is_mapped=True))


def _damaged(run: RunFolder, why: str) -> DamagedError:
    return DamagedError(f"The result of the run {run.id} cannot be used: {why}.", advice=run.result_advice)
