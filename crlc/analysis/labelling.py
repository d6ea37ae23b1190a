"""Which images a person should label next: some from every cluster, each different from those labelled, no odd ones.

With few labels, typical images teach more than doubtful ones: a label on an image in a dense place says something about
many others. So the first image of a cluster is its most typical, and doubt counts more as labels become more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.quality import ImageQuality, mean_by_cluster
from crlc.analysis.unit_rows import Rows, Vectors, unit
from crlc.errors import UsageError

_POOL_PER_CLUSTER = 2000
_DOUBT = 0.5
_IMPURITY = 0.5


class ToLabel(NamedTuple):
    """Suggested images, most useful first."""

    rows: Rows
    reasons: tuple[str, ...]
    """Why each: `first of its cluster`, `unlike those labelled`, `between two clusters`."""


def images_to_label(
    z: NDArray[Any],
    clusters: Rows,
    quality: ImageQuality,
    count: int,
    *,
    labelled: NDArray[np.bool_] | None = None,
    left_out: NDArray[np.bool_] | None = None,
) -> ToLabel:
    """Choose images; the same ones on every call.

    Clusters take turns, large and impure ones more often. In its turn a cluster gives the image that is best by
    typicality among its own (as a rank), times how unlike those that are labelled or chosen in the cluster it is,
    times one plus some of its doubt.

    Args:
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        quality: of each image.
        count: how many; fewer come when fewer are left.
        labelled: images that have a label: not suggested again, and others like them are less useful.
        left_out: images never to suggest.

    Raises:
        UsageError: the count is not positive.
    """
    if count < 1:
        raise UsageError(f"{count} images to label were asked for; ask for at least 1.")
    none = np.zeros(len(clusters), dtype=bool)
    labelled = none if labelled is None else labelled
    possible = ~labelled if left_out is None else ~(labelled | left_out)
    many = int(clusters.max()) + 1
    left = np.bincount(clusters[possible], minlength=many)
    taken = np.bincount(clusters[labelled], minlength=many)
    impurity = 1 - np.nan_to_num(mean_by_cluster(quality.neighbour_agreement, clusters, many))
    weight = left * (_IMPURITY + impurity)
    by_cluster = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[by_cluster], np.arange(many + 1))
    pools: dict[int, _Pool] = {}
    rows: list[int] = []
    reasons: list[str] = []
    while len(rows) < count and left.any():
        # A cluster without any label goes before all others; then as seats are given to parties (d'Hondt).
        claim = np.where(taken == 0, 1e12, 1) * weight / (taken + 1)
        turn = int(np.where(left > 0, claim, -1).argmax())
        if turn not in pools:
            members = by_cluster[starts[turn] : starts[turn + 1]]
            pools[turn] = _Pool(z, members, quality, labelled, possible)
        row, reason = pools[turn].take()
        if row is None:  # a large cluster's sample is used up
            left[turn] = 0
            continue
        rows.append(row)
        reasons.append(reason)
        taken[turn] += 1
        left[turn] -= 1
    return ToLabel(np.array(rows, dtype=np.int64), tuple(reasons))


class _Pool:
    """The images of one cluster that can be chosen; of a large one a sample."""

    def __init__(
        self,
        z: NDArray[Any],
        members: Rows,
        quality: ImageQuality,
        labelled: NDArray[np.bool_],
        possible: NDArray[np.bool_],
    ) -> None:
        candidates = members[possible[members]]
        typicality = quality.typicality[candidates]
        # Of a large cluster those in denser places, every second or third of them: the others are not wanted anyway.
        if len(candidates) > _POOL_PER_CLUSTER:
            dense = np.sort(np.argsort(-typicality, kind="stable")[: len(candidates) // 2])
            candidates = candidates[dense[:: -(-len(dense) // _POOL_PER_CLUSTER)]]
            typicality = quality.typicality[candidates]
        self._rows = candidates
        self._vectors: Vectors = unit(z[candidates])
        self._worth = _ranks(typicality)
        self._doubt = 1 - quality.margin[candidates]
        self._likeness = np.full(len(candidates), -1.0)
        self._free = np.ones(len(candidates), dtype=bool)
        known = members[labelled[members]][:_POOL_PER_CLUSTER]
        self._labels = len(known)
        if len(known):
            self._likeness = (self._vectors @ unit(z[known]).T).max(axis=1)

    def take(self) -> tuple[int | None, str]:
        """The best image now, and why."""
        if not self._free.any():
            return None, ""
        # The more labels a cluster has, the more its borders matter.
        doubt = self._doubt * _DOUBT * self._labels
        value = self._worth * (1 - self._likeness) * (1 + doubt)
        value = np.where(self._free, value, -np.inf)
        best = int(value.argmax())
        reason = "first of its cluster"
        if self._labels:
            unlike = _ranks(1 - self._likeness)[best]
            reason = "between two clusters" if _ranks(self._doubt)[best] > unlike else "unlike those labelled"
        self._free[best] = False
        self._labels += 1
        self._likeness = np.maximum(self._likeness, self._vectors @ self._vectors[best])
        return int(self._rows[best]), reason


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """From just above 0 for the smallest to 1 for the largest; equal values have equal ranks."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, side="right") / len(values)
