"""Normalisation of feature rows to unit length, one chunk at a time, and a fingerprint of features."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import Features, FloatArray
from crlc.errors import DamagedError, UsageError

CHUNK_ROWS = 32_768
_TABLE_AXES = 2
_FINGERPRINT_ROWS = 256


def check_features(features: Features) -> None:
    """Check that features are a table with one row per image.

    Raises:
        UsageError: they are empty or not two-dimensional.
    """
    if features.ndim != _TABLE_AXES or 0 in features.shape:
        raise UsageError(
            f"Features of shape {features.shape} are not allowed: the shape must be (images, dimensions), not empty."
        )


def normalize_rows(rows: NDArray[Any]) -> FloatArray:
    """Return rows scaled to unit length, as contiguous float32; a row of zeros stays zero.

    Raises:
        DamagedError: a value is not finite.
    """
    vectors = np.array(rows, dtype=np.float32, order="C")
    squares = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all():
        row = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise DamagedError(
            f"Features contain a value that is not finite (first in row {row} of a chunk of {len(vectors)}).",
            advice="The run that computed them failed: train or assign again.",
        )
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1
    vectors /= lengths[:, None].astype(np.float32)
    return vectors


def iterate_normalized_chunks(features: Features, size: int = CHUNK_ROWS) -> Iterator[tuple[int, FloatArray]]:
    """Yield the index of the first row and the normalised rows of each chunk."""
    for start in range(0, len(features), size):
        yield start, normalize_rows(features[start : start + size])


def fingerprint_features(features: Features) -> str:
    """Return a fingerprint that distinguishes the features of different runs: shape, type and checksum of some rows."""
    rows = np.unique(np.linspace(0, len(features) - 1, _FINGERPRINT_ROWS).astype(np.int64))
    return f"{features.shape} {features.dtype.str} {zlib.crc32(np.ascontiguousarray(features[rows]).tobytes()):08x}"
