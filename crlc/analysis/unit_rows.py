"""Reading feature rows a chunk at a time as unit vectors; they may be a memory map larger than memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.errors import DamagedError, UsageError

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

CHUNK_ROWS = 32_768
_MATRIX = 2
_FINGERPRINT_ROWS = 256


def check_features(features: NDArray[Any]) -> None:
    """Refuse anything but a table of one row per image.

    Raises:
        UsageError: not two-dimensional, or empty.
    """
    if features.ndim != _MATRIX or 0 in features.shape:
        raise UsageError(
            f"Features of shape {features.shape} were given; they must be (images, dimensions), not empty."
        )


def unit(rows: NDArray[Any]) -> Vectors:
    """Rows divided by their length, as contiguous float32; a row of zeros stays one.

    Raises:
        DamagedError: a number is not finite.
    """
    vectors = np.array(rows, dtype=np.float32, order="C")
    squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all():
        row = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise DamagedError(
            f"Features hold a number that is not finite (first in row {row} of {len(vectors)} read together). "
            "The run that made them went wrong: train or assign again."
        )
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1
    vectors /= lengths[:, None].astype(np.float32)
    return vectors


def unit_chunks(features: NDArray[Any], size: int = CHUNK_ROWS) -> Iterator[tuple[int, Vectors]]:
    """Start and unit rows of one chunk after another."""
    for start in range(0, len(features), size):
        yield start, unit(features[start : start + size])


def fingerprint(features: NDArray[Any]) -> str:
    """Shape and a checksum of evenly spaced rows: enough to tell one run's features from another's."""
    rows = np.unique(np.linspace(0, len(features) - 1, _FINGERPRINT_ROWS).astype(np.int64))
    return f"{features.shape} {features.dtype.str} {zlib.crc32(np.ascontiguousarray(features[rows]).tobytes()):08x}"
