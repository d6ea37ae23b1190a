"""Perceptual hashes (dHash): a small change of an image's size, compression or brightness changes only a few bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import BoolArray, FloatArray, IntArray
from crlc.errors import UsageError

_GRID_ROWS, _GRID_COLUMNS = 8, 9
_GREY_WEIGHTS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_MIN_STEP = 1.5
"""Smaller brightness differences between two cells (of 255) are noise: a flat area must always have the same hash."""

_MAX_BRIGHTNESS_DIFFERENCE = 12.0
_BATCH_IMAGES = 512
_IMAGE_AXES = 4
_CHANNELS = 3


class PerceptualHashes(NamedTuple):
    """Hashes and tiny thumbnails of N images, to find near duplicates."""

    hashes: NDArray[np.uint64]
    """(N,) one bit for each of 8 x 8 grid cells: whether it is brighter than the cell to its left (dHash)."""

    thumbnails: NDArray[np.uint8]
    """(N, 8, 9) mean brightness of the grid cells. Needed because flat images of any brightness have the same hash."""


def hash_images(pixels: NDArray[Any]) -> PerceptualHashes:
    """Hash images, (N, S, S, 3) uint8; may be a memory map.

    Raises:
        UsageError: the array has another shape or type.
    """
    if pixels.ndim != _IMAGE_AXES or pixels.shape[-1] != _CHANNELS or pixels.dtype != np.uint8:
        raise UsageError(
            f"Pixels of shape {pixels.shape} and type {pixels.dtype} are not allowed: they must be (N, S, S, 3) uint8."
        )
    starts = range(0, len(pixels), _BATCH_IMAGES)
    return concatenate_hashes(_hash_batch(pixels[start : start + _BATCH_IMAGES]) for start in starts)


def concatenate_hashes(parts: Iterable[PerceptualHashes]) -> PerceptualHashes:
    """Concatenate the hashes of several batches."""
    empty = PerceptualHashes(np.empty(0, np.uint64), np.empty((0, _GRID_ROWS, _GRID_COLUMNS), np.uint8))
    all_parts = [empty, *parts]
    return PerceptualHashes(*(np.concatenate(column) for column in zip(*all_parts, strict=True)))


def count_differing_bits(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the Hamming distance of each pair of hashes."""
    differing: NDArray[np.uint8] = np.bitwise_count(first ^ second)
    return differing


def have_same_brightness(hashes: PerceptualHashes, first: IntArray, second: IntArray) -> BoolArray:
    """Return whether the thumbnails of each pair of images are nearly equal, apart from a small uniform change.

    Args:
        hashes: hashes of all images.
        first: row index of the first image of each pair, (P,).
        second: row index of the second image, (P,).
    """
    is_same = np.empty(len(first), dtype=bool)
    for start in range(0, len(first), _BATCH_IMAGES):
        part = slice(start, start + _BATCH_IMAGES)
        one, other = (hashes.thumbnails[rows[part]].astype(np.float32) for rows in (first, second))
        difference = (one - other).reshape(len(one), -1)
        bound = _MAX_BRIGHTNESS_DIFFERENCE
        uniform = np.clip(difference.mean(axis=1, keepdims=True), -bound, bound)
        is_same[part] = np.abs(difference - uniform).mean(axis=1) <= bound / 2
    return is_same


def _hash_batch(pixels: NDArray[Any]) -> PerceptualHashes:
    grey = pixels.astype(np.float32) @ _GREY_WEIGHTS
    row_weights = _compute_cell_weights(_GRID_ROWS, grey.shape[1])
    column_weights = _compute_cell_weights(_GRID_COLUMNS, grey.shape[2])
    cells = row_weights @ grey @ column_weights.T
    brighter = cells[:, :, 1:] > cells[:, :, :-1] + _MIN_STEP
    packed = np.packbits(brighter.reshape(len(pixels), 64), axis=1)
    return PerceptualHashes(packed.view(np.uint64)[:, 0], np.rint(cells).astype(np.uint8))


def _compute_cell_weights(cells: int, size: int) -> FloatArray:
    """Return the weight of each of `size` pixels in each of `cells` equal intervals; each row sums to 1."""
    edges = np.linspace(0, size, cells + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights: FloatArray = (np.maximum(overlap, 0) * (cells / size)).astype(np.float32)
    return weights
