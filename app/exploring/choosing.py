"""Which images are meant: inside a line drawn on the map, right or wrong by their class. Arrays only."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
_FEWEST_CORNERS = 3

OUTCOMES = ("all", "correct", "false negative", "false positive")


def inside_polygon(places: NDArray[np.float32], corners: Sequence[Sequence[float]]) -> Mask:
    """Which points lie inside a polygon, by the even-odd rule, (N,); nothing does if it has fewer than 3 corners.

    Args:
        places: (N, 2).
        corners: of the polygon, in order; the last is joined to the first.
    """
    found = np.zeros(len(places), np.bool_)
    outline = np.asarray(corners, np.float64)
    if outline.ndim != _FEWEST_CORNERS - 1 or len(outline) < _FEWEST_CORNERS or not np.isfinite(outline).all():
        return found
    low, high = outline.min(axis=0), outline.max(axis=0)
    near = np.flatnonzero(((places >= low) & (places <= high)).all(axis=1))
    x, y = places[near].astype(np.float64).T
    odd = np.zeros(len(near), np.bool_)
    for (x1, y1), (x2, y2) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if y1 == y2:
            continue
        crosses = ((y1 > y) != (y2 > y)) & (x < x1 + (y - y1) * ((x2 - x1) / (y2 - y1)))
        odd ^= crosses
    found[near[odd]] = True
    return found


def outcome_mask(
    outcome: str, classes: NDArray[np.int64], clusters: NDArray[np.int64], matched: NDArray[np.int64], of: int | None
) -> Mask:
    """Images that are correct, false negatives or false positives, (N,), as in the paper's Fig. 2.

    Args:
        outcome: one of `OUTCOMES`.
        classes: of each image, -1 where unknown, (N,).
        clusters: of each image, (N,).
        matched: the cluster that goes with each class, -1 for none.
        of: the class it is about; none for any: then every wrong image is one of both kinds.
    """
    known = classes >= 0
    wanted = np.where(known, matched[np.maximum(classes, 0)], -1)
    right = known & (wanted == clusters)
    if outcome == "all":
        return np.ones(len(classes), np.bool_) if of is None else classes == of
    if outcome == "correct":
        return right if of is None else right & (classes == of)
    if outcome == "false negative":
        return known & ~right if of is None else (classes == of) & ~right
    taken = known & ~right & np.isin(clusters, matched[matched >= 0])
    return taken if of is None else taken & (clusters == matched[of]) & (matched[of] >= 0)


def packed(mask: Mask | None) -> str | None:
    """One bit per image as text for the browser, the first in the lowest bit of the first byte."""
    return None if mask is None else b64encode(np.packbits(mask, bitorder="little").tobytes()).decode()


def spread(places: NDArray[np.floating]) -> NDArray[np.float32]:
    """A map moved and scaled to lie between -1 and 1, its shape kept; NaN and infinity go to the middle."""
    clean = np.nan_to_num(np.asarray(places, np.float64), nan=np.nan, posinf=np.nan, neginf=np.nan)
    if not len(clean) or np.isnan(clean).all():
        return np.zeros((len(clean), 2), np.float32)
    low, high = np.nanmin(clean, axis=0), np.nanmax(clean, axis=0)
    half = max(float((high - low).max()) / 2, 1e-12)
    return np.nan_to_num((clean - (low + high) / 2) / half).astype(np.float32)
