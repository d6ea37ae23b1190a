"""Comparison of two clusterings: agreement, matching clusters and reassigned images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_metrics import compute_accuracy, compute_contingency, match_clusters
from crlc.analysis.quality import check_same_length
from crlc.arrays import IntArray
from crlc.errors import UsageError


class MatchedClusters(NamedTuple):
    """A cluster of the first run and the matching cluster of the second; -1 where there is none."""

    first: int
    second: int
    first_size: int
    second_size: int
    common: int
    """Number of images in both clusters."""

    overlap: float
    """Number of common images as a fraction of the images in either cluster (Jaccard index)."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of two clusterings over their common images."""

    images: int
    only_first: int
    only_second: int
    ari: float
    nmi: float
    same_share: float
    """Fraction of the images that are in the matching cluster."""

    matched: tuple[MatchedClusters, ...]
    """All non-empty clusters: those of the first run in order, then those of the second run without a match."""

    reassigned_ids: IntArray
    """Ids of images whose cluster in the second run does not match their cluster in the first."""

    reassigned_from: IntArray
    """Their cluster in the first run."""

    reassigned_to: IntArray
    """Their cluster in the second run."""


def compare_clusterings(
    first_ids: NDArray[Any], first_clusters: IntArray, second_ids: NDArray[Any], second_clusters: IntArray
) -> Comparison:
    """Compare the clusterings of two runs by image id; the order of the images may differ.

    Args:
        first_ids: ids of the images of the first run, (N,).
        first_clusters: their clusters, (N,).
        second_ids: ids of the images of the second run, (M,).
        second_clusters: their clusters, (M,).

    Raises:
        UsageError: the runs have no image in common.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    check_same_length(ids=first_ids, clusters=first_clusters)
    check_same_length(ids=second_ids, clusters=second_clusters)
    ids, in_first, in_second = np.intersect1d(first_ids, second_ids, assume_unique=True, return_indices=True)
    if not len(ids):
        raise UsageError("The two runs cannot be compared: they have no image in common.")
    before, after = np.asarray(first_clusters)[in_first], np.asarray(second_clusters)[in_second]
    match = match_clusters(before, after)
    reassigned = np.flatnonzero(match[before] != after)
    return Comparison(
        images=len(ids),
        only_first=len(first_ids) - len(ids),
        only_second=len(second_ids) - len(ids),
        ari=float(adjusted_rand_score(before, after)),
        nmi=float(normalized_mutual_info_score(before, after)),
        same_share=compute_accuracy(before, after),
        matched=_list_matches(compute_contingency(before, after), match),
        reassigned_ids=ids[reassigned],
        reassigned_from=before[reassigned],
        reassigned_to=after[reassigned],
    )


def _list_matches(table: IntArray, match: IntArray) -> tuple[MatchedClusters, ...]:
    first_sizes, second_sizes = table.sum(axis=1), table.sum(axis=0)
    lines = []
    for first in np.flatnonzero(first_sizes).tolist():
        second = int(match[first])
        size = int(first_sizes[first])
        if second < 0:
            lines.append(MatchedClusters(first, -1, size, 0, 0, 0.0))
            continue
        common, other = int(table[first, second]), int(second_sizes[second])
        lines.append(MatchedClusters(first, second, size, other, common, common / (size + other - common)))
    alone = np.setdiff1d(np.flatnonzero(second_sizes), match)
    lines += [MatchedClusters(-1, second, 0, int(second_sizes[second]), 0, 0.0) for second in alone.tolist()]
    return tuple(lines)
