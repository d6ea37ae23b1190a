"""How well clusters agree with classes, or with other clusters. Classes are for reporting only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer[Any]]


class Agreement(NamedTuple):
    """The three measures of the paper."""

    acc: float
    nmi: float
    ari: float


def agreement(clusters: Numbers, classes: Numbers) -> Agreement | None:
    """ACC, NMI and ARI over the images whose class is known; none when there is no such image.

    Args:
        clusters: the cluster of each image, (N,).
        classes: the class of each image, -1 where unknown, (N,).
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    known = classes >= 0
    if not known.any():
        return None
    clusters, classes = clusters[known], classes[known]
    return Agreement(
        acc=matched_accuracy(clusters, classes),
        nmi=float(normalized_mutual_info_score(classes, clusters)),
        ari=float(adjusted_rand_score(classes, clusters)),
    )


def matched_accuracy(clusters: Numbers, classes: Numbers) -> float:
    """ACC: the share of images in the class that their cluster is matched to, one to one, as well as can be.

    With other numbers of clusters than of classes the table is not square; what is left unmatched counts as wrong.
    """
    from scipy.optimize import linear_sum_assignment

    table = contingency(clusters, classes)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(clusters))


def contingency(first: Numbers, second: Numbers) -> NDArray[np.int64]:
    """How many images have each pair of numbers, (max of first + 1, max of second + 1)."""
    width = int(second.max()) + 1
    counts = np.bincount(first.astype(np.int64) * width + second, minlength=(int(first.max()) + 1) * width)
    return counts.reshape(-1, width)


def mean_pairwise_nmi(assignments: Numbers) -> float:
    """How much several clusterings of the same images agree, (S, N): the mean NMI over all pairs, 1 for one."""
    from sklearn.metrics import normalized_mutual_info_score

    count = len(assignments)
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    if not pairs:
        return 1.0
    return float(np.mean([normalized_mutual_info_score(assignments[a], assignments[b]) for a, b in pairs]))
