"""Reader of whole originals, which are decoded for every call; the pixel store has only their centre squares."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.data.dataset import RELINK_ADVICE, ImageDataset
from crlc.data.decode import decode_stretched
from crlc.data.manifest import Manifest
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError
from crlc.paths import to_printable
from crlc.subprocesses import count_available_cores


class WholeImages(NamedTuple):
    """Whole images, stretched to squares so that they fit into one array."""

    pixels: NDArray[np.uint8]
    """(B, size, size, 3)."""

    aspects: NDArray[np.float32]
    """Width divided by height of each original, (B,)."""


class WholeImageReader:
    """Reads whole images of a dataset from its source, with one thread per core."""

    def __init__(self, dataset: ImageDataset) -> None:
        """Store the dataset; its source and manifest are opened by the first call."""
        self._dataset = dataset

    @cached_property
    def _paths(self) -> dict[int, str]:
        with Manifest(self._dataset.folder) as manifest:
            return {record.id: record.path for record in manifest.read_records("status = 'ok'")}

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(count_available_cores())  # Pillow decodes without the interpreter's lock

    def read(self, ids: Sequence[int] | NDArray[np.int64], size: int) -> WholeImages:
        """Decode images, each stretched to a square of `size` pixels, in the order of `ids`.

        Raises:
            SourceError: an original is missing or damaged.
        """
        decoded = list(self._threads.map(lambda image_id: self._decode(image_id, size), np.asarray(ids).tolist()))
        pixels = np.empty((len(decoded), size, size, 3), np.uint8)
        for row, (_, image) in zip(pixels, decoded, strict=True):
            row[:] = image
        aspects = np.array([width / height for (width, height), _ in decoded], np.float32)
        return WholeImages(pixels, aspects)

    def _decode(self, image_id: int, size: int) -> tuple[tuple[int, int], NDArray[np.uint8]]:
        path = self._paths[image_id]
        try:
            shape, image = decode_stretched(self._dataset.source.read(path), size)
        except UnreadableError as error:
            raise SourceError(
                f"{to_printable(path)} of {self._dataset.name} cannot be read: {error}.", advice=RELINK_ADVICE
            ) from None
        return shape, np.asarray(image)
