"""Writer of the pixel store. The reader is in `pixel_store`.

Image `id` is at row `id - 1`, (size, size, 3) bytes. Rows of unreadable images are holes in the file.
The writer does not use a memory map: on a full disk a write raises an error, but a memory map kills the process.

This is a separate module because decode workers import it: NumPy and filelock, which the reader needs, would double
the start time of a worker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

CHANNELS = 3


def get_pixel_file(folder: Path, size: int) -> Path:
    """Return the file with the pixels of one size of the dataset in `folder`."""
    return folder / "pixels" / f"{size}.u8"


def count_image_bytes(size: int) -> int:
    """Return how many bytes one image occupies in the store."""
    return size * size * CHANNELS


def read_stored_pixels(folder: Path, size: int, image_id: int) -> bytes:
    """Return the stored pixels of one image, (size, size, 3) bytes, without NumPy."""
    with get_pixel_file(folder, size).open("rb", buffering=0) as stream:
        stream.seek((image_id - 1) * count_image_bytes(size))
        return stream.read(count_image_bytes(size))


class PixelWriter:
    """Writer of one pixel store. Several processes may write different rows at the same time."""

    def __init__(self, folder: Path, size: int) -> None:
        """Open the file, or create it if it does not exist."""
        self._size = size
        file = get_pixel_file(folder, size)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._stream: BinaryIO = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)), "r+b", 0)

    def write(self, image_id: int, pixels: bytes) -> None:
        """Write one image, (size, size, 3) bytes, to its row."""
        self._stream.seek((image_id - 1) * count_image_bytes(self._size))
        left = memoryview(pixels)
        while left:
            left = left[self._stream.write(left) :]

    def count_rows(self) -> int:
        """Return the number of complete rows in the file."""
        return os.fstat(self._stream.fileno()).st_size // count_image_bytes(self._size)

    def count_occupied_bytes(self) -> int:
        """Return the disk space that the file uses, which is less than its length if it has holes."""
        status = os.fstat(self._stream.fileno())
        return status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size

    def reserve(self, rows: int) -> None:
        """Extend the file to `rows` rows; the new part uses no disk space until it is written."""
        if self.count_rows() < rows:
            self._stream.truncate(rows * count_image_bytes(self._size))

    def flush(self) -> None:
        """Wait until the writes of all processes to the file are on disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
