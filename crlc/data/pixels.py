"""The files of the pixel store, and writing them. Reading is in `pixel_store`.

Image `id` lies at row `id - 1`, (size, size, 3) bytes. Rows of unreadable images are holes in the file.
Writers use plain writes, not the map: on a full disk a write fails cleanly, a map kills the process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

CHANNELS = 3


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
    return size * size * CHANNELS


class PixelWriter:
    """Writes rows of one store; several processes may, each its own rows."""

    def __init__(self, folder: Path, size: int) -> None:
        """Open the file, made if it is not there."""
        self._size = size
        file = pixel_file(folder, size)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)), "r+b", 0)

    def write(self, image_id: int, pixels: bytes) -> None:
        """Put one image, (size, size, 3) bytes, into its row."""
        self._stream.seek((image_id - 1) * bytes_per_image(self._size))
        left = memoryview(pixels)
        while left:
            left = left[self._stream.write(left) :]

    def rows(self) -> int:
        """How many whole rows the file holds now."""
        return os.fstat(self._stream.fileno()).st_size // bytes_per_image(self._size)

    def occupied(self) -> int:
        """How many bytes of the disk the file takes: less than its length where it has holes."""
        status = os.fstat(self._stream.fileno())
        return status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size

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
