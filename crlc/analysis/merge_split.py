"""Suggestions to merge or split clusters, with their evidence, and the split of a cluster by k-means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cluster_pairs import ClusterPairs
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.normalization import normalize_rows
from crlc.arrays import BoolArray, Features, FloatArray, IntArray
from crlc.errors import UsageError

_MIN_CLUSTER_IMAGES = 20
_MAX_SAMPLED_IMAGES = 4000
_TWO_MEANS_ITERATIONS = 20
_UNIMODAL_EXPLAINED = 2 / np.pi
"""Fraction of the variance of a normal distribution that a cut in the middle explains."""

_MIN_SIDE_FRACTION = 0.1
_MIN_SEPARATION = 0.5
_MIN_MIXING = 0.02
_KMEANS_RESTARTS = 4
_MIN_PARTS = 2


class MergeSuggestion(NamedTuple):
    """Two clusters that could be one, with the evidence."""

    first: int
    second: int
    mixing: float
    """From 0 (no image has a neighbour in the other) to about 1 (as if the two were one). Defines the order."""

    crossing: float
    """Fraction of the neighbours of both clusters' images that are in the other cluster."""

    similarity: float
    """Cosine similarity of the two means."""

    shared: float
    """Mean probability of the other cluster, over the images of both."""

    first_size: int
    second_size: int


class SplitSuggestion(NamedTuple):
    """A cluster that could be two, with the evidence."""

    cluster: int
    separation: float
    """From 0 (one mode) to 1 (two distant modes), measured on images that were not used to find the two sides."""

    sizes: tuple[int, int]
    """Number of images on each side, larger side first; estimated for a large cluster."""

    crossing: float
    """Fraction of the neighbours within the cluster that are on the other side; low for two groups."""

    similarity: float
    """Cosine similarity of the means of the two sides."""

    examples: tuple[int, int]
    """The row nearest to the mean of each side."""


def suggest_merges(pairs: ClusterPairs, limit: int = 10) -> list[MergeSuggestion]:
    """Return up to `limit` pairs of clusters that could be merged, highest mixing first."""
    mixing = pairs.mixing
    first, second = np.triu_indices(len(pairs.size), 1)
    score = mixing[first, second]
    order = np.argsort(-score, kind="stable")[:limit]
    neighbours = pairs.links.sum(axis=1)
    return [
        MergeSuggestion(
            first=int(a),
            second=int(b),
            mixing=float(mixing[a, b]),
            crossing=float((pairs.links[a, b] + pairs.links[b, a]) / (neighbours[a] + neighbours[b])),
            similarity=float(pairs.similarity[a, b]),
            shared=_average_shared_probability(pairs, a, b),
            first_size=int(pairs.size[a]),
            second_size=int(pairs.size[b]),
        )
        for a, b in zip(first[order], second[order], strict=True)
        if mixing[a, b] >= _MIN_MIXING
    ]


def suggest_splits(
    z: Features, clusters: IntArray, graph: Neighbours, limit: int = 10, *, min_separation: float = _MIN_SEPARATION
) -> list[SplitSuggestion]:
    """Return the clusters that could be split in two, highest separation first.

    Args:
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        graph: the neighbours of each image.
        limit: maximum number of suggestions.
        min_separation: minimum separation of a suggestion.
    """
    order = np.argsort(clusters, kind="stable")
    numbers, starts = np.unique(clusters[order], return_index=True)
    found = [
        suggestion
        for number, members in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
        if len(members) >= _MIN_CLUSTER_IMAGES
        and (suggestion := _examine_cluster(number, members, z, clusters, graph)) is not None
        and suggestion.separation >= min_separation
    ]
    return sorted(found, key=lambda suggestion: -suggestion.separation)[:limit]


def split_cluster(features: NDArray[np.floating[Any]], parts: int, seed: int = 0) -> IntArray:
    """Split the images of one cluster by k-means.

    Args:
        features: features of the images of the cluster, (N, d).
        parts: number of parts, from 2 to N.
        seed: seed of the initial centres.

    Returns:
        The part of each image, (N,); part 0 is the largest.

    Raises:
        UsageError: there are fewer than two parts, or more parts than different images.
    """
    from sklearn.cluster import KMeans

    count = len(features)
    if not _MIN_PARTS <= parts <= count:
        raise UsageError(
            f"parts={parts} is not allowed for a cluster of {count:,} images: "
            f"it must be from {_MIN_PARTS} to the number of images."
        )
    vectors = np.ascontiguousarray(features, dtype=np.float32)
    if len(np.unique(vectors, axis=0)) < parts:
        raise UsageError(
            f"parts={parts} is not allowed: these {count:,} images are too similar.", advice="Choose a smaller number."
        )
    found: NDArray[np.int32] = KMeans(parts, n_init=_KMEANS_RESTARTS, random_state=seed).fit(vectors).labels_
    sizes = np.bincount(found, minlength=parts)
    rank = np.empty(parts, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(parts)
    return rank[found]


def _average_shared_probability(pairs: ClusterPairs, a: int, b: int) -> float:
    sizes = pairs.size[[a, b]]
    total = pairs.shared_probability[a, b] * sizes[0] + pairs.shared_probability[b, a] * sizes[1]
    return float(total / sizes.sum())


def _examine_cluster(
    cluster: int, members: IntArray, z: Features, clusters: IntArray, graph: Neighbours
) -> SplitSuggestion | None:
    """Fit a cut on one half of a cluster's images, and test on the other half whether the cut separates two modes."""
    step = -(-len(members) // _MAX_SAMPLED_IMAGES)
    rows = members[::step]
    vectors = normalize_rows(z[rows])
    centres = _fit_two_means(vectors[::2])
    axis = centres[1] - centres[0]
    along = vectors @ axis
    side = along > (centres.sum(axis=0) / 2) @ axis
    separation = _measure_separation(along[1::2], side[1::2])
    smaller = min(side.mean(), 1 - side.mean())
    if separation is None or smaller < _MIN_SIDE_FRACTION:
        return None
    means = [vectors[side == which].mean(axis=0) for which in (False, True)]
    examples = [int(rows[np.argmax(np.where(side == which, vectors @ means[which], -np.inf))]) for which in (0, 1)]
    sizes = [round(float((side == which).mean()) * len(members)) for which in (False, True)]
    similarity = float(normalize_rows(means[0][None])[0] @ normalize_rows(means[1][None])[0])
    if sizes[0] < sizes[1]:
        sizes, examples = sizes[::-1], examples[::-1]
    crossing = _measure_crossing(rows, side, clusters, graph, cluster)
    return SplitSuggestion(cluster, separation, (sizes[0], sizes[1]), crossing, similarity, (examples[0], examples[1]))


def _fit_two_means(vectors: FloatArray) -> FloatArray:
    """Return two k-means centres, initialised deterministically by a cut across the first principal component."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    side = centred @ directions[:, -1] > 0
    if not 0 < side.sum() < len(side):  # all vectors are equal
        return np.stack([vectors[0], vectors[0]])
    centres = np.stack([vectors[~side].mean(axis=0), vectors[side].mean(axis=0)])
    for _ in range(_TWO_MEANS_ITERATIONS):
        new = vectors @ (centres[1] - centres[0]) > (centres.sum(axis=0) / 2) @ (centres[1] - centres[0])
        if (new == side).all() or not 0 < new.sum() < len(new):
            break
        side = new
        centres = np.stack([vectors[~side].mean(axis=0), vectors[side].mean(axis=0)])
    return centres


def _measure_separation(along: FloatArray, side: BoolArray) -> float | None:
    """Return the variance that the two sides explain, scaled to 0 for a normal distribution and 1 for all variance."""
    total = float(along.var())
    if not 0 < side.sum() < len(side) or total <= 0:
        return None
    within = side.mean() * along[side].var() + (1 - side.mean()) * along[~side].var()
    return max(0.0, float((1 - within / total - _UNIMODAL_EXPLAINED) / (1 - _UNIMODAL_EXPLAINED)))


def _measure_crossing(rows: IntArray, side: BoolArray, clusters: IntArray, graph: Neighbours, cluster: int) -> float:
    """Return the fraction of neighbours on the other side, among neighbours that are sampled and in the cluster."""
    neighbours = graph.positions[rows]
    index = np.minimum(np.searchsorted(rows, neighbours), len(rows) - 1)  # rows are ascending
    known = (rows[index] == neighbours) & (clusters[neighbours] == cluster)
    return float(((side[index] != side[:, None]) & known).sum() / max(1, int(known.sum())))
