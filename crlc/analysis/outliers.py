"""Outliers: images that are far from their neighbours compared with the rest of their cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crlc.arrays import FloatArray


class Outlier(NamedTuple):
    """An image with a high outlier score."""

    row: int
    score: float
    """Distance to its neighbours as a multiple of the median of its cluster (1 = typical)."""


def find_outliers(scores: FloatArray, limit: int = 50, *, min_score: float = 2.0) -> list[Outlier]:
    """Return the images with the highest outlier scores, highest first; ties in the order of the rows.

    Args:
        scores: `ImageQuality.outlier_score` of each image, (N,).
        limit: maximum number of outliers.
        min_score: minimum outlier score (1 = typical).
    """
    order = np.argsort(-scores, kind="stable")[:limit]
    return [Outlier(int(row), float(scores[row])) for row in order if scores[row] >= min_score]
