"""The pixel store: decoded images of one size in one memory-mapped file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from crlc.data.pixel_writer import CHANNELS, count_image_bytes, get_pixel_file
from crlc.errors import DamagedError
from crlc.files import read_json, write_json

_KIND, _VERSION = "pixel store", 1
_ADVICE = "Import the dataset again to repair it."


def get_marker_file(folder: Path, size: int) -> Path:
    """Return the file that exists once the pixels of that size are complete."""
    return folder / "pixels" / f"{size}.json"


def list_stored_sizes(folder: Path, *, complete: bool = False) -> tuple[int, ...]:
    """Return the sizes of the pixel stores of a dataset, ascending: all of them, or only the complete ones."""
    files = (folder / "pixels").glob("*.json" if complete else "*.u8")
    return tuple(sorted(int(file.stem) for file in files if file.stem.isdecimal()))


def measure_stored_bytes(folder: Path) -> int:
    """Return the length of all pixel stores of a dataset; one that has just been removed does not count."""
    found = 0
    for file in (folder / "pixels").glob("*.u8"):
        with suppress(OSError):
            found += file.stat().st_size
    return found


def mark_complete(folder: Path, size: int, rows: int) -> None:
    """Write the marker file, which states that the first `rows` rows are on disk."""
    content: dict[str, Any] = {"kind": _KIND, "version": _VERSION, "size": size, "rows": rows}
    write_json(get_marker_file(folder, size), content)


class _MarkerEntries(TypedDict):
    rows: int


class PixelStore:
    """Reader of the pixels of one size."""

    def __init__(self, folder: Path, size: int, ids: Sequence[int], *, is_complete: bool = True) -> None:
        """Open the store.

        Args:
            folder: the folder of the dataset.
            size: side of the square images, in pixels.
            ids: ids of the stored images, from the manifest.
            is_complete: False for a store that its first import is still writing; the manifest lists only images whose
                pixels are on disk.

        Raises:
            DamagedError: the store has no marker file, or fewer rows than that states.
        """
        self.size = size
        self._file = get_pixel_file(folder, size)
        if is_complete:
            marker = get_marker_file(folder, size)
            self._rows: int = read_json(marker, _KIND, _VERSION, _ADVICE, _MarkerEntries)["rows"]
            if self._rows < 0:
                raise DamagedError(f"{marker} is damaged: it has rows={self._rows}.", advice=_ADVICE)
        else:
            self._rows = self._file.stat().st_size // count_image_bytes(size)
        known = np.asarray(ids, dtype=np.int64)
        self.ids = known[known <= self._rows]  # the others belong to an import in progress
        needed = self._rows * count_image_bytes(size)
        found = self._file.stat().st_size if self._file.exists() else 0
        if found < needed:
            raise DamagedError(f"{self._file} has {found:,} bytes, but {needed:,} are needed.", advice=_ADVICE)

    def __len__(self) -> int:
        """Return the number of stored images."""
        return len(self.ids)

    @cached_property
    def _map(self) -> NDArray[np.uint8]:
        shape = (self._rows, self.size, self.size, CHANNELS)
        return np.memmap(self._file, dtype=np.uint8, mode="r", shape=shape)

    def read(self, ids: NDArray[np.int64] | Sequence[int]) -> NDArray[np.uint8]:
        """Return the pixels of images, (len(ids), size, size, 3), in the order of `ids`."""
        return self._map[np.asarray(ids, dtype=np.int64) - 1]
