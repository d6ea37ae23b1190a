"""Two runs side by side: how far they agree, which clusters go together, which images moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.agreement import contingency, matched_accuracy
from crlc.analysis.quality import check_same_length, matched_to
from crlc.analysis.unit_rows import Rows
from crlc.errors import UsageError


class MatchedClusters(NamedTuple):
    """A cluster of the first run and the one of the second that goes with it; -1 where there is none."""

    first: int
    second: int
    first_size: int
    second_size: int
    common: int
    """Images in both."""

    overlap: float
    """Images in both, as a share of those in either."""


@dataclass(frozen=True)
class Comparison:
    """Over the images that both runs have."""

    images: int
    only_first: int
    only_second: int
    ari: float
    nmi: float
    same_share: float
    """Of images that stayed in the matched cluster."""

    matched: tuple[MatchedClusters, ...]
    """Every cluster with images once; in the order of the first run's, then those only the second has."""

    moved_ids: NDArray[np.int64]
    """Images whose cluster in the second run is not the one matched to their cluster in the first, by id."""

    moved_from: Rows
    """Their cluster in the first run."""

    moved_to: Rows
    """Their cluster in the second."""


def compare_runs(
    first_ids: NDArray[Any], first_clusters: Rows, second_ids: NDArray[Any], second_clusters: Rows
) -> Comparison:
    """Compare by image id, in whatever order the runs have them.

    Raises:
        UsageError: the runs have no image in common.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    check_same_length(ids=first_ids, clusters=first_clusters)
    check_same_length(ids=second_ids, clusters=second_clusters)
    ids, here, there = np.intersect1d(first_ids, second_ids, assume_unique=True, return_indices=True)
    if not len(ids):
        raise UsageError("The two runs have no image in common, so there is nothing to compare.")
    before, after = np.asarray(first_clusters)[here], np.asarray(second_clusters)[there]
    match = matched_to(before, after)
    moved = np.flatnonzero(match[before] != after)
    return Comparison(
        images=len(ids),
        only_first=len(first_ids) - len(ids),
        only_second=len(second_ids) - len(ids),
        ari=float(adjusted_rand_score(before, after)),
        nmi=float(normalized_mutual_info_score(before, after)),
        same_share=matched_accuracy(before, after),
        matched=_matched_clusters(contingency(before, after), match),
        moved_ids=ids[moved],
        moved_from=before[moved],
        moved_to=after[moved],
    )


def _matched_clusters(table: Rows, match: Rows) -> tuple[MatchedClusters, ...]:
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
