"""The pixel store: decoded images of one size in one file, memory-mapped by whoever reads them.

Image `id` lies at row `id - 1`, (size, size, 3) bytes. Rows of unreadable images are holes in the file.
Writers use plain writes, not the map: on a full disk a write fails cleanly, a map kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crlc.errors import DamagedError
from crlc.files import read_json, write_json

_KIND, _VERSION = "pixel store", 1
_CHANNELS = 3


def pixel_file(folder: Path, size: int) -> Path:
    """Where the data set in `folder` keeps its pixels of that size."""
    return folder / "pixels" / f"{size}.u8"


def marker_file(folder: Path, size: int) -> Path:
    """The file whose presence says that the pixels are complete."""
    return folder / "pixels" / f"{size}.json"


def stored_sizes(folder: Path, *, complete: bool = False) -> tuple[int, ...]:
    """Sizes of the data set's pixel stores: all that were begun, or only the complete ones."""
    files = (folder / "pixels").glob("*.json" if complete else "*.u8")
    return tuple(sorted(int(file.stem) for file in files if file.stem.isdigit()))


def bytes_per_image(size: int) -> int:
    """What one image takes in the store."""
    return size * size * _CHANNELS


class PixelWriter:
    """Writes rows of one store; several processes may, each its own rows."""

    def __init__(self, folder: Path, size: int) -> None:
        """Open the file, made if it is not there."""
        self._size = size
        file = pixel_file(folder, size)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)), "r+b", 0)

    def write(self, image_id: int, pixels: NDArray[np.uint8]) -> None:
        """Put one image into its row."""
        self._stream.seek((image_id - 1) * bytes_per_image(self._size))
        left = np.ascontiguousarray(pixels).data.cast("B")
        while left:
            left = left[self._stream.write(left) :]

    def rows(self) -> int:
        """How many whole rows the file holds now."""
        return os.fstat(self._stream.fileno()).st_size // bytes_per_image(self._size)

    def occupied(self) -> int:
        """How many bytes of the disk the file takes: less than its length where it has holes."""
        status = os.fstat(self._stream.fileno())
        return int(getattr(status, "st_blocks", 0)) * 512 or status.st_size

    def reserve(self, rows: int) -> None:
        """Make the file long enough; the new part takes no space until it is written."""
        if self.rows() < rows:
            self._stream.truncate(rows * bytes_per_image(self._size))

    def flush(self) -> None:
        """Wait until everything that any process wrote to the file is on the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()


def mark_complete(folder: Path, size: int, rows: int) -> None:
    """Say that the first `rows` rows are on the disk."""
    content: dict[str, Any] = {"kind": _KIND, "version": _VERSION, "size": size, "rows": rows}
    write_json(marker_file(folder, size), content)


class PixelStore:
    """The finished pixels of one size, for reading."""

    def __init__(self, folder: Path, size: int, ids: Sequence[int]) -> None:
        """Open the store.

        Args:
            folder: the data set's folder.
            size: side of the squares, in pixels.
            ids: the images that are stored (the manifest knows).

        Raises:
            DamagedError: it is not complete, or shorter than it says.
        """
        marker = read_json(marker_file(folder, size), _KIND, _VERSION)
        self.size = size
        self._file = pixel_file(folder, size)
        self._rows = int(marker["rows"])
        known = np.asarray(ids, dtype=np.int64)
        self.ids = known[known <= self._rows]  # the rest belongs to an import that is under way
        needed = self._rows * bytes_per_image(size)
        found = self._file.stat().st_size if self._file.exists() else 0
        if found < needed:
            raise DamagedError(
                f"{self._file} has {found} bytes, but {needed} are needed. Import the data set again to mend it."
            )

    def __len__(self) -> int:
        """How many images are stored."""
        return len(self.ids)

    @cached_property
    def _map(self) -> NDArray[np.uint8]:
        shape = (self._rows, self.size, self.size, _CHANNELS)
        return np.memmap(self._file, dtype=np.uint8, mode="r", shape=shape)

    def read(self, ids: NDArray[np.int64] | Sequence[int]) -> NDArray[np.uint8]:
        """The pixels of some images, (len(ids), size, size, 3), in the order asked for."""
        return self._map[np.asarray(ids, dtype=np.int64) - 1]
