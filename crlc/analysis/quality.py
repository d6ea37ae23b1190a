"""Quality of a clustering without classes, per image, per cluster and for the whole run. Arrays are read in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_metrics import match_clusters
from crlc.analysis.cluster_pairs import ClusterPairs, sum_by_cluster
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.normalization import CHUNK_ROWS, iterate_normalized_chunks
from crlc.arrays import DoubleArray, Features, FloatArray, IntArray
from crlc.errors import UsageError

_MIN_CLUSTER_IMAGES = 10
"""In smaller clusters the median distance is unreliable, and the median of all images is used instead."""

_MIN_RELATIVE_SCALE = 0.01
_MIN_DISTANCE = 1e-6
_MIN_CLUSTERS = 2


@dataclass(frozen=True)
class ImageQuality:
    """Quality of each image, (N,) each."""

    confidence: FloatArray
    """The highest probability."""

    second_cluster: IntArray
    """The cluster with the second highest probability; 0 when there is only one cluster."""

    second_probability: FloatArray

    margin: FloatArray
    """Highest probability minus the second highest."""

    neighbour_agreement: FloatArray
    """Fraction of its neighbours that are in the same cluster."""

    subhead_agreement: FloatArray | None
    """Fraction of the other subheads that assign it to the same cluster; None when there is one subhead."""

    silhouette: FloatArray
    """Silhouette by cosine distance, from -1 (nearer to another cluster) to 1; 0 for a cluster of one image."""

    typicality: FloatArray
    """Mean similarity to its neighbours, counting those in other clusters as 0: high in the core of the cluster."""

    outlier_score: FloatArray
    """Mean distance to its neighbours, as a multiple of the median of its cluster: 1 is typical, 3 is an outlier."""


class ClusterQuality(NamedTuple):
    """Quality of each cluster, (C,) each; means are NaN for an empty cluster."""

    size: IntArray
    confidence: DoubleArray
    neighbour_agreement: DoubleArray
    """A proxy for purity: images whose neighbours are in other clusters are probably misassigned."""

    silhouette: DoubleArray
    subhead_agreement: DoubleArray | None
    closest: IntArray
    """The other cluster with the highest mixing; -1 when there is none."""

    closest_mixing: DoubleArray
    """Mixing with the closest cluster, from 0 (no common neighbours) to about 1 (as if the two were one)."""

    closest_similarity: DoubleArray
    """Cosine similarity of the two means."""


class RunQuality(NamedTuple):
    """Quality of a run: means over all images."""

    images: int
    clusters: int
    """Number of clusters with at least one image."""

    confidence: float
    margin: float
    neighbour_agreement: float
    subhead_agreement: float | None
    silhouette: float
    largest_share: float
    """Fraction of all images that are in the largest cluster."""


def compute_image_quality(
    q: NDArray[Any],
    z: Features,
    clusters: IntArray,
    graph: Neighbours,
    *,
    by_subhead: NDArray[Any] | None = None,
    selected_subhead: int = 0,
) -> ImageQuality:
    """Compute the quality of each image.

    Args:
        q: probabilities, (N, C).
        z: features, (N, d).
        clusters: the cluster of each image, (N,): the most probable, except for images that the user moved.
        graph: the neighbours of each image.
        by_subhead: the cluster that each subhead assigns to each image, (S, N).
        selected_subhead: index of the subhead that computed q.

    Raises:
        UsageError: the arrays have different lengths.
    """
    check_same_length(q=q, z=z, clusters=clusters, graph=graph.positions)
    first, second, second_cluster = _find_two_largest(q)
    agreement, typicality = _compare_with_neighbours(clusters, graph)
    distance = np.maximum(1 - graph.similarity.mean(axis=1), 0)
    return ImageQuality(
        confidence=first,
        second_cluster=second_cluster,
        second_probability=second,
        margin=first - second,
        neighbour_agreement=agreement,
        subhead_agreement=None if by_subhead is None else compute_subhead_agreement(by_subhead, selected_subhead),
        silhouette=compute_silhouette(z, clusters),
        typicality=typicality,
        outlier_score=_scale_by_cluster_median(distance, clusters),
    )


def compute_cluster_quality(
    images: ImageQuality, clusters: IntArray, pairs: ClusterPairs, count: int | None = None
) -> ClusterQuality:
    """Compute the quality of each cluster.

    Args:
        images: from `compute_image_quality`.
        clusters: the cluster of each image, (N,).
        pairs: from `compute_cluster_pairs`.
        count: number of clusters; by default that of `pairs`.
    """
    count = len(pairs.size) if count is None else count
    closest, mixing, similarity = pairs.find_closest()
    by_subhead = images.subhead_agreement
    return ClusterQuality(
        size=pairs.size[:count],
        confidence=average_by_cluster(images.confidence, clusters, count),
        neighbour_agreement=average_by_cluster(images.neighbour_agreement, clusters, count),
        silhouette=average_by_cluster(images.silhouette, clusters, count),
        subhead_agreement=None if by_subhead is None else average_by_cluster(by_subhead, clusters, count),
        closest=closest[:count],
        closest_mixing=mixing[:count],
        closest_similarity=similarity[:count],
    )


def compute_run_quality(images: ImageQuality, clusters: IntArray) -> RunQuality:
    """Compute the quality of a run from that of its images."""
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


def compute_subhead_agreement(by_subhead: NDArray[Any], selected: int) -> FloatArray | None:
    """Compute for each image the fraction of the other subheads that agree with the selected one.

    Args:
        by_subhead: the cluster that each subhead assigns to each image, (S, N). Each subhead's clusters are matched to
            those of the selected one first.
        selected: index of the selected subhead.

    Returns:
        Fractions (N,), or None when there is one subhead.
    """
    reference = np.asarray(by_subhead[selected], dtype=np.int64)
    others = [number for number in range(len(by_subhead)) if number != selected]
    if not others:
        return None
    agreeing = np.zeros(len(reference), dtype=np.float32)
    for number in others:
        clusters = np.asarray(by_subhead[number], dtype=np.int64)
        agreeing += match_clusters(clusters, reference)[clusters] == reference
    return agreeing / np.float32(len(others))


def compute_silhouette(z: Features, clusters: IntArray) -> FloatArray:
    """Compute the exact silhouette of each image by cosine distance, (N,).

    The mean cosine distance to the images of a cluster is one minus the dot product with their mean, so distances to
    the cluster means are enough.
    """
    sums, sizes = sum_by_cluster(z, clusters)
    there = np.flatnonzero(sizes)
    values = np.zeros(len(z), dtype=np.float32)
    if len(there) < _MIN_CLUSTERS:
        return values
    column = np.zeros(len(sizes), dtype=np.int64)
    column[there] = np.arange(len(there))
    for start, chunk in iterate_normalized_chunks(z):
        mine = clusters[start : start + len(chunk)]
        here = np.arange(len(chunk))
        distances = 1 - chunk.astype(np.float64) @ (sums[there] / sizes[there, None]).T
        of_mine = sizes[mine]
        # The mean over the cluster of an image includes the image itself, at distance 0, which must not count.
        within = distances[here, column[mine]] * of_mine / np.maximum(of_mine - 1, 1)
        distances[here, column[mine]] = np.inf
        nearest = distances.min(axis=1)
        larger = np.maximum(np.maximum(within, nearest), _MIN_DISTANCE)
        values[start : start + len(chunk)] = np.where(of_mine > 1, (nearest - within) / larger, 0)
    return values


def average_by_cluster(values: NDArray[Any], clusters: IntArray, count: int) -> DoubleArray:
    """Compute the mean of the values in each cluster, (count,); NaN for an empty cluster."""
    sizes = np.bincount(clusters, minlength=count)
    totals = np.bincount(clusters, weights=values, minlength=count)
    means: DoubleArray = np.where(sizes > 0, totals / np.maximum(sizes, 1), np.nan)[:count]
    return means


def check_same_length(**arrays: NDArray[Any]) -> None:
    """Check that arrays have one row per image of the same run.

    Raises:
        UsageError: their lengths differ.
    """
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        given = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"Arrays of different lengths are not allowed ({given}): they must be of the same run.")


def _find_two_largest(q: NDArray[Any]) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the highest and the second highest probability, and the cluster of the latter."""
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


def _compare_with_neighbours(clusters: IntArray, graph: Neighbours) -> tuple[FloatArray, FloatArray]:
    """Return the fraction of neighbours in the same cluster, and the mean similarity, counting the others as 0."""
    agreement, similarity = np.empty(len(clusters), np.float32), np.empty(len(clusters), np.float32)
    for start in range(0, len(clusters), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        same = clusters[graph.positions[part]] == clusters[part, None]
        agreement[part] = same.mean(axis=1)
        similarity[part] = np.where(same, np.maximum(graph.similarity[part], 0), 0).mean(axis=1)
    return agreement, similarity


def _scale_by_cluster_median(distance: FloatArray, clusters: IntArray) -> FloatArray:
    """Return distances as multiples of the median of their cluster."""
    median = float(np.median(distance))
    order = np.argsort(clusters, kind="stable")
    numbers, starts = np.unique(clusters[order], return_index=True)
    scales = np.full(int(clusters.max()) + 1, median)
    for number, members in zip(numbers, np.split(order, starts[1:]), strict=True):
        if len(members) >= _MIN_CLUSTER_IMAGES:
            scales[number] = np.median(distance[members])
    # A cluster of copies has a median of 0, with which any other image would have an infinite score.
    scales = np.maximum(scales, max(_MIN_RELATIVE_SCALE * median, _MIN_DISTANCE))
    relative: FloatArray = (distance / scales[clusters]).astype(np.float32)
    return relative
