"""Masks of images: images inside a polygon on the map, and images that are correct or wrong by their class."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_MIN_CORNERS = 3

OUTCOMES = ("all", "correct", "false negative", "false positive")


def select_inside_polygon(coordinates: NDArray[np.float32], corners: Sequence[Sequence[float]]) -> Mask:
    """Return the mask (N,) of the points inside a polygon, by the even-odd rule; empty with fewer than 3 corners.

    Args:
        coordinates: of the points, (N, 2).
        corners: of the polygon, in order; the last is connected to the first.
    """
    found = np.zeros(len(coordinates), np.bool_)
    outline = np.asarray(corners, np.float64)
    if outline.ndim != coordinates.ndim or len(outline) < _MIN_CORNERS or not np.isfinite(outline).all():
        return found
    low, high = outline.min(axis=0), outline.max(axis=0)
    near = np.flatnonzero(((coordinates >= low) & (coordinates <= high)).all(axis=1))
    x, y = coordinates[near].astype(np.float64).T
    is_inside = np.zeros(len(near), np.bool_)
    for (x1, y1), (x2, y2) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if y1 == y2:
            continue
        crosses = ((y1 > y) != (y2 > y)) & (x < x1 + (y - y1) * ((x2 - x1) / (y2 - y1)))
        is_inside ^= crosses
    found[near[is_inside]] = True
    return found


def select_outcome(
    outcome: str, classes: NDArray[np.int64], clusters: NDArray[np.int64], matched: NDArray[np.int64], of: int | None
) -> Mask:
    """Return the mask (N,) of the images that are correct, false negatives or false positives (paper, Fig. 2).

    Args:
        outcome: one of `OUTCOMES`.
        classes: ground-truth class of each image, -1 if unknown, (N,).
        clusters: cluster of each image, (N,).
        matched: the cluster matched to each class, -1 if none.
        of: the class to compare; `None` for all classes, where every wrong image is a false negative.
    """
    is_known = classes >= 0
    is_in_class: Mask = is_known if of is None else classes == of
    is_correct: Mask = is_known & (np.where(is_known, matched[np.maximum(classes, 0)], -1) == clusters)
    if outcome == "all":
        return np.ones(len(classes), np.bool_) if of is None else is_in_class
    if outcome == "correct":
        return is_correct & is_in_class
    if outcome == "false negative":
        return is_in_class & ~is_correct
    is_wrong: Mask = is_known & ~is_correct & np.isin(clusters, matched[matched >= 0])
    return is_wrong if of is None else is_wrong & (clusters == matched[of]) & (matched[of] >= 0)


def encode_mask(mask: Mask | None) -> str | None:
    """Return a mask as base64 for the browser: one bit per image, the first in the lowest bit of the first byte."""
    return None if mask is None else b64encode(np.packbits(mask, bitorder="little").tobytes()).decode()


def normalize_coordinates(coordinates: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return coordinates moved and scaled into -1 to 1, with their aspect ratio; NaN and infinity become 0."""
    clean = np.nan_to_num(np.asarray(coordinates, np.float64), nan=np.nan, posinf=np.nan, neginf=np.nan)
    if not len(clean) or np.isnan(clean).all():
        return np.zeros((len(clean), 2), np.float32)
    low, high = np.nanmin(clean, axis=0), np.nanmax(clean, axis=0)
    half = max(float((high - low).max()) / 2, 1e-12)
    normalized: NDArray[np.float32] = np.nan_to_num((clean - (low + high) / 2) / half).astype(np.float32)
    return normalized
