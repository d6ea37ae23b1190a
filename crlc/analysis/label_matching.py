"""Matching of label names to clusters, by the labelled images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import IntArray

_PROBABILITY_WEIGHT = 0.5
"""Among clusters with the same number of labelled images, the more probable one is matched."""


class MatchedNames(NamedTuple):
    """Label names in alphabetical order, each with its own cluster."""

    names: tuple[str, ...]
    clusters: IntArray
    """The cluster of each name; if there are more names than clusters, the others get new numbers."""

    unsupported: tuple[str, ...]
    """Names without a labelled image in the cluster matched to them."""


def match_names_to_clusters(q: NDArray[Any], clusters: IntArray, names: Sequence[str]) -> MatchedNames:
    """Match label names to clusters so that as many labelled images as possible are in the cluster of their name.

    Args:
        q: probabilities of the labelled images, (L, C).
        clusters: the clusters of the labelled images, (L,).
        names: the label of each labelled image, (L,).
    """
    from scipy.optimize import linear_sum_assignment

    known, numbers = np.unique(np.asarray(names, object).astype(str), return_inverse=True)
    count = max(q.shape[1], len(known))
    probability, images = np.zeros((len(known), count)), np.zeros((len(known), count))
    np.add.at(probability[:, : q.shape[1]], numbers, np.asarray(q, np.float64))
    np.add.at(images, (numbers, clusters), 1.0)
    _, found = linear_sum_assignment(images + _PROBABILITY_WEIGHT * probability, maximize=True)
    unsupported = tuple(str(name) for row, name in enumerate(known) if not images[row, found[row]])
    return MatchedNames(tuple(map(str, known)), found.astype(np.int64), unsupported)
