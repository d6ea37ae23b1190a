"""File of an approximate neighbour index, with a JSON marker that identifies its features. Exact ones have no file."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, TypedDict

from crlc.analysis.neighbours.faiss_library import load_faiss
from crlc.analysis.neighbours.index import NeighbourIndex
from crlc.analysis.normalization import fingerprint_features
from crlc.arrays import Features
from crlc.errors import DamagedError, UsageError, explain_disk_full
from crlc.files import read_json, write_file, write_json

_KIND, _VERSION = "neighbour index", 1
_ADVICE = "Remove it; it is built again when needed."


def save_index(index: NeighbourIndex, path: Path) -> None:
    """Write an approximate index and its marker `<path>.json`, each atomically.

    Raises:
        UsageError: the index is exact, so there is nothing to save.
        DiskFullError: the disk is full; an existing index is kept.
    """
    faiss = load_faiss()

    if index.faiss_index is None:
        raise UsageError(
            "An exact index has nothing to save.", advice="Build it from the features again, which takes no time."
        )
    untyped: Any = faiss

    def write(stream: IO[bytes]) -> None:
        untyped.write_index(index.faiss_index, untyped.PyCallbackIOWriter(stream.write))
        # An old marker must not describe the new file, which is about to be renamed.
        _marker_path(path).unlink(missing_ok=True)

    with explain_disk_full(path.parent):
        write_file(path, write)
        write_json(
            _marker_path(path),
            {
                "kind": _KIND,
                "version": _VERSION,
                "bytes": path.stat().st_size,
                "recall": index.recall,
                "features": fingerprint_features(index.features),
            },
        )


class _MarkerEntries(TypedDict):
    bytes: int
    recall: float
    features: str


def load_index(path: Path, features: Features) -> NeighbourIndex:
    """Load an index that `save_index` wrote for the same features.

    Raises:
        DamagedError: the file is missing, truncated, of another kind, or built from other features.
    """
    faiss = load_faiss()

    marker = read_json(_marker_path(path), _KIND, _VERSION, _ADVICE, _MarkerEntries)
    if not path.is_file() or path.stat().st_size != marker["bytes"]:
        raise DamagedError(f"{path} does not have the length that its marker file states.", advice=_ADVICE)
    if marker["features"] != fingerprint_features(features):
        raise DamagedError(f"{path} was built from other features than those given.", advice=_ADVICE)
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise DamagedError(f"{path} cannot be read ({str(error).splitlines()[0]}).", advice=_ADVICE) from None
    return NeighbourIndex(features, index, marker["recall"])


def _marker_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")
