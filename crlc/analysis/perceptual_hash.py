"""A hash of what an image looks like, which small changes of size, compression or light leave nearly as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.unit_rows import Rows
from crlc.errors import UsageError

_HIGH, _WIDE = 8, 9
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_STEP = 1.5
"""A smaller difference between two fields (of 255) is noise: an even surface must hash the same each time."""

_AS_BRIGHT = 12.0
_AT_ONCE = 512
_IMAGE_AXES = 4
_COLOURS = 3


class Looks(NamedTuple):
    """What is kept of N images to find copies by."""

    hashes: NDArray[np.uint64]
    """(N,) whether each of 8 x 8 fields is brighter than the one left of it (dHash)."""

    thumbnails: NDArray[np.uint8]
    """(N, 8, 9) mean grey of the fields: pictures of one even grey have one hash whatever the grey."""


def looks_of(pixels: NDArray[Any]) -> Looks:
    """Hash images, (N, S, S, 3) bytes; may be a memory map.

    Raises:
        UsageError: not such an array.
    """
    if pixels.ndim != _IMAGE_AXES or pixels.shape[-1] != _COLOURS or pixels.dtype != np.uint8:
        raise UsageError(
            f"Pixels of shape {pixels.shape} and type {pixels.dtype} were given; (N, S, S, 3) bytes are needed."
        )
    return join_looks(_looks_of_batch(pixels[start : start + _AT_ONCE]) for start in range(0, len(pixels), _AT_ONCE))


def join_looks(parts: Iterable[Looks]) -> Looks:
    """Put the looks of several batches together."""
    empty = Looks(np.empty(0, np.uint64), np.empty((0, _HIGH, _WIDE), np.uint8))
    all_parts = [empty, *parts]
    return Looks(*(np.concatenate(column) for column in zip(*all_parts, strict=True)))


def hamming(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """In how many bits hashes differ."""
    differing: NDArray[np.uint8] = np.bitwise_count(first ^ second)
    return differing


def same_brightness(looks: Looks, first: Rows, second: Rows) -> NDArray[np.bool_]:
    """Whether the fields of two images differ by little, besides an even change of light."""
    alike = np.empty(len(first), dtype=bool)
    for start in range(0, len(first), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        one, other = (looks.thumbnails[rows[part]].astype(np.float32) for rows in (first, second))
        difference = (one - other).reshape(len(one), -1)
        light = np.clip(difference.mean(axis=1, keepdims=True), -_AS_BRIGHT, _AS_BRIGHT)
        alike[part] = np.abs(difference - light).mean(axis=1) <= _AS_BRIGHT / 2
    return alike


def _looks_of_batch(pixels: NDArray[Any]) -> Looks:
    grey = pixels.astype(np.float32) @ _GREY
    fields = _shares(_HIGH, grey.shape[1]) @ grey @ _shares(_WIDE, grey.shape[2]).T
    brighter = fields[:, :, 1:] > fields[:, :, :-1] + _STEP
    packed = np.packbits(brighter.reshape(len(pixels), 64), axis=1)
    return Looks(packed.view(np.uint64)[:, 0], np.rint(fields).astype(np.uint8))


def _shares(fields: int, size: int) -> NDArray[np.float32]:
    """How much of each of `size` pixels lies in each of `fields` equal parts; each row adds up to 1."""
    edges = np.linspace(0, size, fields + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    shares: NDArray[np.float32] = (np.maximum(overlap, 0) * (fields / size)).astype(np.float32)
    return shares
