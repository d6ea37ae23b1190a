"""The pixel store: decoded images of one size in one file, memory-mapped by whoever reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.data.pixels import CHANNELS, bytes_per_image, marker_file, pixel_file
from crlc.errors import DamagedError
from crlc.files import read_json, write_json

_KIND, _VERSION = "pixel store", 1


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
        marker = read_json(marker_file(folder, size), _KIND, _VERSION, "Import the data set again to mend it.")
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
        shape = (self._rows, self.size, self.size, CHANNELS)
        return np.memmap(self._file, dtype=np.uint8, mode="r", shape=shape)

    def read(self, ids: NDArray[np.int64] | Sequence[int]) -> NDArray[np.uint8]:
        """The pixels of some images, (len(ids), size, size, 3), in the order asked for."""
        return self._map[np.asarray(ids, dtype=np.int64) - 1]
