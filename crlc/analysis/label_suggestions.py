"""Suggestions of images to label next: from every cluster, images that differ from labelled ones but are no outliers.

With few labels, typical images teach more than uncertain ones: a label in a dense region holds for many other images.
So the first suggestion of a cluster is its most typical image, and uncertainty counts more as labels are added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.normalization import normalize_rows
from crlc.analysis.quality import ImageQuality, average_by_cluster
from crlc.arrays import BoolArray, DoubleArray, Features, FloatArray, IntArray
from crlc.errors import UsageError

REPRESENTATIVE = "cluster representative"
UNLIKE_LABELLED = "unlike labelled images"
BETWEEN_CLUSTERS = "between two clusters"

_MAX_CLUSTER_CANDIDATES = 2000
"""Of a cluster with more images, a sample is considered."""

_UNCERTAINTY_WEIGHT = 0.5
_BASE_IMPURITY = 0.5
"""Added to the impurity of every cluster, so that pure clusters get turns too."""

_UNLABELLED_PRIORITY = 1e12


class LabelSuggestions(NamedTuple):
    """Images suggested for labelling, most useful first."""

    rows: IntArray
    """Row indices, (n,)."""

    reasons: tuple[str, ...]
    """The reason for each: `REPRESENTATIVE`, `UNLIKE_LABELLED` or `BETWEEN_CLUSTERS`."""


def suggest_images_to_label(
    z: Features,
    clusters: IntArray,
    quality: ImageQuality,
    count: int,
    *,
    labelled: BoolArray | None = None,
    excluded: BoolArray | None = None,
) -> LabelSuggestions:
    """Suggest images to label. The result is deterministic.

    Clusters take turns; large and impure clusters get more turns. In each turn, a cluster suggests the image with the
    highest product of three factors: typicality rank, dissimilarity to the labelled and suggested images of the
    cluster, and one plus a multiple of its uncertainty.

    Args:
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        quality: quality of each image.
        count: number of suggestions; fewer when fewer images are left.
        labelled: mask of images that have a label, (N,): not suggested, and similar images are less useful.
        excluded: mask of images that must not be suggested, (N,).

    Raises:
        UsageError: `count` is less than 1.
    """
    if count < 1:
        raise UsageError(f"count={count} is not allowed: it must be at least 1.")
    none = np.zeros(len(clusters), dtype=bool)
    labelled = none if labelled is None else labelled
    possible = ~labelled if excluded is None else ~(labelled | excluded)
    cluster_count = int(clusters.max()) + 1
    left = np.bincount(clusters[possible], minlength=cluster_count)
    labels = np.bincount(clusters[labelled], minlength=cluster_count)
    impurity = 1 - np.nan_to_num(average_by_cluster(quality.neighbour_agreement, clusters, cluster_count))
    weight = left * (_BASE_IMPURITY + impurity)
    by_cluster = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[by_cluster], np.arange(cluster_count + 1))
    candidates_of: dict[int, _ClusterCandidates] = {}
    rows: list[int] = []
    reasons: list[str] = []
    while len(rows) < count and left.any():
        # Clusters without a label come first; then turns are allotted by the D'Hondt method, as seats are to parties.
        priority = np.where(labels == 0, _UNLABELLED_PRIORITY, 1) * weight / (labels + 1)
        turn = int(np.where(left > 0, priority, -1).argmax())
        if turn not in candidates_of:
            members = by_cluster[starts[turn] : starts[turn + 1]]
            candidates_of[turn] = _ClusterCandidates(z, members, quality, labelled, possible)
        row, reason = candidates_of[turn].pop_best()
        if row is None:  # the sample of a large cluster is exhausted
            left[turn] = 0
            continue
        rows.append(row)
        reasons.append(reason)
        labels[turn] += 1
        left[turn] -= 1
    return LabelSuggestions(np.array(rows, dtype=np.int64), tuple(reasons))


class _ClusterCandidates:
    """The images of one cluster that can be suggested; a sample of a large cluster."""

    def __init__(
        self,
        z: Features,
        members: IntArray,
        quality: ImageQuality,
        labelled: BoolArray,
        possible: BoolArray,
    ) -> None:
        candidates = members[possible[members]]
        typicality = quality.typicality[candidates]
        # Sample a large cluster evenly from its more typical half: the other half would not be suggested anyway.
        if len(candidates) > _MAX_CLUSTER_CANDIDATES:
            dense = np.sort(np.argsort(-typicality, kind="stable")[: len(candidates) // 2])
            candidates = candidates[dense[:: -(-len(dense) // _MAX_CLUSTER_CANDIDATES)]]
            typicality = quality.typicality[candidates]
        self._rows = candidates
        self._vectors: FloatArray = normalize_rows(z[candidates])
        self._typicality_rank = _compute_ranks(typicality)
        self._uncertainty = 1 - quality.margin[candidates]
        self._similarity = np.full(len(candidates), -1.0)
        self._free = np.ones(len(candidates), dtype=bool)
        known = members[labelled[members]][:_MAX_CLUSTER_CANDIDATES]
        self._labels = len(known)
        if len(known):
            self._similarity = (self._vectors @ normalize_rows(z[known]).T).max(axis=1)

    def pop_best(self) -> tuple[int | None, str]:
        """Remove the best image, and return its row and the reason; the row is None when no image is left."""
        if not self._free.any():
            return None, ""
        # The more labels a cluster has, the more its border matters.
        uncertainty = self._uncertainty * _UNCERTAINTY_WEIGHT * self._labels
        value = self._typicality_rank * (1 - self._similarity) * (1 + uncertainty)
        value = np.where(self._free, value, -np.inf)
        best = int(value.argmax())
        reason = REPRESENTATIVE
        if self._labels:
            is_uncertain = _compute_ranks(self._uncertainty)[best] > _compute_ranks(1 - self._similarity)[best]
            reason = BETWEEN_CLUSTERS if is_uncertain else UNLIKE_LABELLED
        self._free[best] = False
        self._labels += 1
        self._similarity = np.maximum(self._similarity, self._vectors @ self._vectors[best])
        return int(self._rows[best]), reason


def _compute_ranks(values: NDArray[Any]) -> DoubleArray:
    """Return ranks from just above 0 for the smallest to 1 for the largest; equal values have equal ranks."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, side="right") / len(values)
