"""How one cluster falls apart into several, by the features of its images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.errors import UsageError

_STARTS = 4
_FEWEST_PARTS = 2


def split_by_features(features: NDArray[np.floating[Any]], parts: int, seed: int = 0) -> NDArray[np.int64]:
    """Which part each image goes to, by k-means; part 0 is the largest.

    Args:
        features: of the images of one cluster, (N, D).
        parts: how many parts, from 2 to N.
        seed: of the starting points.

    Raises:
        UsageError: there are not that many images, or not that many different ones.
    """
    from sklearn.cluster import KMeans

    count = len(features)
    if not _FEWEST_PARTS <= parts <= count:
        raise UsageError(
            f"A cluster of {count:,} images cannot be split into {parts}: "
            f"give a number from {_FEWEST_PARTS} to the number of its images."
        )
    vectors = np.ascontiguousarray(features, dtype=np.float32)
    if len(np.unique(vectors, axis=0)) < parts:
        raise UsageError(f"These {count:,} images are too much alike to be split into {parts}. Give a smaller number.")
    found: NDArray[np.int32] = KMeans(parts, n_init=_STARTS, random_state=seed).fit(vectors).labels_
    sizes = np.bincount(found, minlength=parts)
    rank = np.empty(parts, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(parts)
    return rank[found]
