"""Which cluster stands for which name, by the images that a person named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.unit_rows import Rows

_BELIEF = 0.5
"""Between clusters with as many named images, the one that the run believes in more."""


class MatchedNames(NamedTuple):
    """Names in the order of the alphabet, each with a cluster of its own."""

    names: tuple[str, ...]
    clusters: Rows
    """The cluster of each; beyond the last one where there are more names than clusters."""

    far: tuple[str, ...]
    """Names none of whose images lies in the cluster that was matched to them."""


def matched_names(q: NDArray[Any], clusters: Rows, names: Sequence[str]) -> MatchedNames:
    """Match names to clusters, as many named images as possible in the cluster of their name.

    Args:
        q: probabilities of the named images, (L, C).
        clusters: their clusters, (L,).
        names: what a person said of each, (L,).
    """
    from scipy.optimize import linear_sum_assignment

    known, numbers = np.unique(np.asarray(names, object).astype(str), return_inverse=True)
    count = max(q.shape[1], len(known))
    belief, images = np.zeros((len(known), count)), np.zeros((len(known), count))
    np.add.at(belief[:, : q.shape[1]], numbers, np.asarray(q, np.float64))
    np.add.at(images, (numbers, clusters), 1.0)
    _, found = linear_sum_assignment(images + _BELIEF * belief, maximize=True)
    far = tuple(str(name) for row, name in enumerate(known) if not images[row, found[row]])
    return MatchedNames(tuple(map(str, known)), found.astype(np.int64), far)
