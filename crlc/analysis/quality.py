"""How good a result is without any classes: for each image, each cluster, and the run. Streams over its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.agreement import contingency
from crlc.analysis.cluster_pairs import ClusterPairs, cluster_sums
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import CHUNK_ROWS, Rows, Vectors, unit_chunks
from crlc.errors import UsageError

_FEW_IMAGES = 10
"""The usual distance inside a cluster of fewer says little: that of all images stands for it."""

_SMALLEST_SCALE = 0.01
_SMALLEST_DISTANCE = 1e-6


@dataclass(frozen=True)
class ImageQuality:
    """One number per image, (N,) each."""

    confidence: Vectors
    """The largest probability."""

    second: Rows
    """The cluster with the second largest probability; the same as the first when there is only one."""

    second_probability: Vectors

    margin: Vectors
    """First probability less the second."""

    neighbour_agreement: Vectors
    """The share of its neighbours that are in the same cluster."""

    subhead_agreement: Vectors | None
    """The share of the other subheads that put it in the same cluster; none when there is one subhead."""

    silhouette: Vectors
    """From -1 (nearer to another cluster) to 1; exact, with cosine distances to all images; 0 alone in a cluster."""

    typicality: Vectors
    """Mean similarity to its neighbours, those in other clusters counting 0: high in the cluster's dense core."""

    outlier: Vectors
    """Mean distance to its neighbours, as a multiple of what is usual in its cluster: 1 is usual, 3 is odd."""


class ClusterQuality(NamedTuple):
    """One number per cluster, (C,) each; means are NaN for an empty cluster."""

    size: Rows
    confidence: NDArray[np.float64]
    neighbour_agreement: NDArray[np.float64]
    """Stands for purity: images whose neighbours are elsewhere are likely wrong."""

    silhouette: NDArray[np.float64]
    subhead_agreement: NDArray[np.float64] | None
    closest: Rows
    """The other cluster it is most mixed with; -1 when there is none."""

    closest_mixing: NDArray[np.float64]
    """From 0 (no neighbours there) to about 1 (as mixed as if the two were one)."""

    closest_similarity: NDArray[np.float64]
    """Cosine between the two means."""


class RunQuality(NamedTuple):
    """Means over all images."""

    images: int
    clusters: int
    """That have at least one image."""

    confidence: float
    margin: float
    neighbour_agreement: float
    subhead_agreement: float | None
    silhouette: float
    largest_share: float
    """Of all images, in the largest cluster."""


def image_quality(
    q: NDArray[Any],
    z: NDArray[Any],
    clusters: Rows,
    graph: Neighbours,
    *,
    by_subhead: NDArray[Any] | None = None,
    speaking: int = 0,
) -> ImageQuality:
    """All that can be said about each image.

    Args:
        q: probabilities, (N, C).
        z: features, (N, d).
        clusters: the cluster of each image, (N,); usually the largest of q, but a person may have moved some.
        graph: the neighbours of each image.
        by_subhead: the cluster that each subhead gives each image, (S, N).
        speaking: which of the subheads q is of.

    Raises:
        UsageError: the arrays are not of the same images.
    """
    check_same_length(q=q, z=z, clusters=clusters, graph=graph.positions)
    first, second, second_cluster = _two_largest(q)
    same_share, same_similarity = _among_neighbours(clusters, graph)
    distance = np.maximum(1 - graph.similarity.mean(axis=1), 0)
    return ImageQuality(
        confidence=first,
        second=second_cluster,
        second_probability=second,
        margin=first - second,
        neighbour_agreement=same_share,
        subhead_agreement=None if by_subhead is None else subhead_agreement(by_subhead, speaking),
        silhouette=silhouette(z, clusters),
        typicality=same_similarity,
        outlier=_relative_to_cluster(distance, clusters),
    )


def cluster_quality(
    images: ImageQuality, clusters: Rows, pairs: ClusterPairs, count: int | None = None
) -> ClusterQuality:
    """Means of each cluster, and the cluster closest to it.

    Args:
        images: what `image_quality` found.
        clusters: the cluster of each image, (N,).
        pairs: what `cluster_pairs` found.
        count: how many clusters there are; by default as many as `pairs` has.
    """
    count = len(pairs.size) if count is None else count
    closest, mixing, similarity = pairs.closest()
    by_subhead = images.subhead_agreement
    return ClusterQuality(
        size=pairs.size[:count],
        confidence=mean_by_cluster(images.confidence, clusters, count),
        neighbour_agreement=mean_by_cluster(images.neighbour_agreement, clusters, count),
        silhouette=mean_by_cluster(images.silhouette, clusters, count),
        subhead_agreement=None if by_subhead is None else mean_by_cluster(by_subhead, clusters, count),
        closest=closest[:count],
        closest_mixing=mixing[:count],
        closest_similarity=similarity[:count],
    )


def run_quality(images: ImageQuality, clusters: Rows) -> RunQuality:
    """Means over all images."""
    sizes = np.bincount(clusters)
    by_subhead = images.subhead_agreement
    return RunQuality(
        images=len(clusters),
        clusters=int((sizes > 0).sum()),
        confidence=float(images.confidence.mean()),
        margin=float(images.margin.mean()),
        neighbour_agreement=float(images.neighbour_agreement.mean()),
        subhead_agreement=None if by_subhead is None else float(by_subhead.mean()),
        silhouette=float(images.silhouette.mean()),
        largest_share=float(sizes.max() / len(clusters)),
    )


def subhead_agreement(by_subhead: NDArray[Any], speaking: int) -> Vectors | None:
    """The share of the other subheads that agree with the speaking one, their clusters matched to its, (N,)."""
    reference = np.asarray(by_subhead[speaking], dtype=np.int64)
    others = [number for number in range(len(by_subhead)) if number != speaking]
    if not others:
        return None
    agreeing = np.zeros(len(reference), dtype=np.float32)
    for number in others:
        clusters = np.asarray(by_subhead[number], dtype=np.int64)
        agreeing += matched_to(clusters, reference)[clusters] == reference
    return agreeing / np.float32(len(others))


def matched_to(clusters: Rows, reference: Rows) -> Rows:
    """For each number of `clusters` the number of `reference` it goes with, one to one (Hungarian); -1 for none."""
    from scipy.optimize import linear_sum_assignment

    table = contingency(clusters, reference)
    match = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    met = table[rows, columns] > 0  # two that share no image do not go together
    match[rows[met]] = columns[met]
    return match


def silhouette(z: NDArray[Any], clusters: Rows) -> Vectors:
    """The silhouette of each image, exact, with cosine distances, (N,).

    The mean cosine distance to the images of a cluster is one less the product with their mean, so all distances to
    all images cost no more than those to the means.
    """
    sums, sizes = cluster_sums(z, clusters)
    there = np.flatnonzero(sizes)
    values = np.zeros(len(z), dtype=np.float32)
    if len(there) < 2:  # noqa: PLR2004
        return values
    column = np.zeros(len(sizes), dtype=np.int64)
    column[there] = np.arange(len(there))
    for start, chunk in unit_chunks(z):
        mine = clusters[start : start + len(chunk)]
        here = np.arange(len(chunk))
        distances = 1 - chunk.astype(np.float64) @ (sums[there] / sizes[there, None]).T
        of_mine = sizes[mine]
        # Its own distance to itself, which is 0, is among those of its cluster and must not be.
        within = distances[here, column[mine]] * of_mine / np.maximum(of_mine - 1, 1)
        distances[here, column[mine]] = np.inf
        nearest = distances.min(axis=1)
        larger = np.maximum(np.maximum(within, nearest), _SMALLEST_DISTANCE)
        values[start : start + len(chunk)] = np.where(of_mine > 1, (nearest - within) / larger, 0)
    return values


def mean_by_cluster(values: NDArray[Any], clusters: Rows, count: int) -> NDArray[np.float64]:
    """The mean of each cluster, NaN for an empty one, (count,)."""
    sizes = np.bincount(clusters, minlength=count)
    totals = np.bincount(clusters, weights=values, minlength=count)
    means: NDArray[np.float64] = np.where(sizes > 0, totals / np.maximum(sizes, 1), np.nan)[:count]
    return means


def check_same_length(**arrays: NDArray[Any]) -> None:
    """Refuse arrays of different numbers of images.

    Raises:
        UsageError: it names them.
    """
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"Arrays of different numbers of images were given: {told}. They must be of one run.")


def _two_largest(q: NDArray[Any]) -> tuple[Vectors, Vectors, Rows]:
    """First and second probability, and the cluster of the second."""
    first, second = np.empty(len(q), np.float32), np.zeros(len(q), np.float32)
    cluster = np.zeros(len(q), np.int64)
    for start in range(0, len(q), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        chunk = np.array(q[part], dtype=np.float32)
        rows = np.arange(len(chunk))
        best = chunk.argmax(axis=1)
        first[part] = chunk[rows, best]
        if chunk.shape[1] > 1:
            chunk[rows, best] = -np.inf
            cluster[part] = chunk.argmax(axis=1)
            second[part] = chunk[rows, cluster[part]]
    return first, second, cluster


def _among_neighbours(clusters: Rows, graph: Neighbours) -> tuple[Vectors, Vectors]:
    """The share of neighbours in the same cluster, and the mean similarity with the others counting 0."""
    share, similarity = np.empty(len(clusters), np.float32), np.empty(len(clusters), np.float32)
    for start in range(0, len(clusters), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        same = clusters[graph.positions[part]] == clusters[part, None]
        share[part] = same.mean(axis=1)
        similarity[part] = np.where(same, np.maximum(graph.similarity[part], 0), 0).mean(axis=1)
    return share, similarity


def _relative_to_cluster(distance: Vectors, clusters: Rows) -> Vectors:
    """Distances as multiples of the median of their cluster."""
    usual = float(np.median(distance))
    order = np.argsort(clusters, kind="stable")
    numbers, starts = np.unique(clusters[order], return_index=True)
    scales = np.full(int(clusters.max()) + 1, usual)
    for number, members in zip(numbers, np.split(order, starts[1:]), strict=True):
        if len(members) >= _FEW_IMAGES:
            scales[number] = np.median(distance[members])
    # A cluster of copies has a median of nothing; the slightest difference would be infinitely odd.
    scales = np.maximum(scales, max(_SMALLEST_SCALE * usual, _SMALLEST_DISTANCE))
    relative: Vectors = (distance / scales[clusters]).astype(np.float32)
    return relative
