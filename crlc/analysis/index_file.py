"""The approximate index on disk, with a marker that says for which features it is. An exact one needs no file."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from crlc.analysis.neighbours import NeighbourIndex
from crlc.analysis.unit_rows import fingerprint
from crlc.errors import DamagedError, UsageError, disk_full_explained
from crlc.files import read_json, write_file, write_json

_KIND, _VERSION = "neighbour index", 1
_ADVICE = "Remove it; it is built again when needed."


def save_index(index: NeighbourIndex, path: Path) -> None:
    """Write the index beside a marker `<path>.json`, complete before it is visible.

    Raises:
        UsageError: the index is exact: there is nothing to save.
        DiskFullError: no space; what was there before is kept.
    """
    import faiss

    if index.approximate is None:
        raise UsageError("An exact index has nothing to save: build it from the features again, which takes no time.")
    untyped: Any = faiss

    def write(stream: IO[bytes]) -> None:
        untyped.write_index(index.approximate, untyped.PyCallbackIOWriter(stream.write))
        # An old marker must not vouch for the new file, which is about to be renamed.
        _marker(path).unlink(missing_ok=True)

    with disk_full_explained(path.parent):
        write_file(path, write)
        write_json(
            _marker(path),
            {
                "kind": _KIND,
                "version": _VERSION,
                "bytes": path.stat().st_size,
                "recall": index.recall,
                "features": fingerprint(index.features),
            },
        )


def load_index(path: Path, features: NDArray[Any]) -> NeighbourIndex:
    """Read what `save_index` wrote, for the same features.

    Raises:
        DamagedError: missing, cut, foreign, or made of other features.
    """
    import faiss

    marker = read_json(_marker(path), _KIND, _VERSION, _ADVICE)
    if not path.is_file() or path.stat().st_size != marker.get("bytes"):
        raise DamagedError(f"{path} is not as long as it was written. {_ADVICE}")
    if marker.get("features") != fingerprint(features):
        raise DamagedError(f"{path} was built from other features than those given. {_ADVICE}")
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise DamagedError(f"{path} cannot be read ({str(error).splitlines()[0]}). {_ADVICE}") from None
    return NeighbourIndex(features, index, float(marker["recall"]))


def _marker(path: Path) -> Path:
    return path.with_name(path.name + ".json")
