"""Closeness of every pair of clusters: by neighbours of their images, by their means and by shared probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.normalization import CHUNK_ROWS, iterate_normalized_chunks
from crlc.arrays import DoubleArray, Features, IntArray
from crlc.errors import UsageError


@dataclass(frozen=True)
class ClusterPairs:
    """Closeness of every pair of C clusters."""

    size: IntArray
    """(C,) number of images."""

    links: IntArray
    """(C, C) number of neighbours in the second cluster, summed over the images of the first."""

    similarity: DoubleArray
    """(C, C) cosine similarity of the means; 0 for an empty cluster."""

    shared_probability: DoubleArray
    """(C, C) mean probability of the second cluster for images of the first; 0 for clusters added by the user."""

    @property
    def mixing(self) -> DoubleArray:
        """(C, C) links between two clusters, as a fraction of those expected if the two were one.

        0 means no neighbours in the other cluster; 1 means that the border has no effect on neighbours. Only links
        within the pair count, so that a third cluster nearby has no effect. The diagonal is 0.
        """
        sizes = self.size.astype(np.float64)
        inside = self.links.diagonal()[:, None] + self.links
        with np.errstate(divide="ignore", invalid="ignore"):
            leaving = np.where(inside > 0, self.links / inside, 0)
            expected = sizes[None, :] / (sizes[:, None] + sizes[None, :])
            ratio = np.where(expected > 0, leaving / expected, 0)
            both = (ratio * sizes[:, None] + ratio.T * sizes[None, :]) / (sizes[:, None] + sizes[None, :])
        both = np.nan_to_num(both)
        np.fill_diagonal(both, 0)
        return np.asarray(both)

    def find_closest(self) -> tuple[IntArray, DoubleArray, DoubleArray]:
        """Return the closest cluster of each cluster (highest mixing), the mixing and the similarity, (C,) each.

        Ties are resolved by the similarity of the means. A cluster that is empty, or the only one with images, has -1
        and NaN.
        """
        count = len(self.size)
        mixing = self.mixing
        there = self.size > 0
        possible = there[:, None] & there[None, :] & ~np.eye(count, dtype=bool)
        order = np.where(possible, mixing + 1e-6 * self.similarity, -np.inf)
        best = order.argmax(axis=1)
        rows = np.arange(count)
        found = possible.any(axis=1)
        return (
            np.where(found, best, -1),
            np.where(found, mixing[rows, best], np.nan),
            np.where(found, self.similarity[rows, best], np.nan),
        )


def compute_cluster_pairs(q: NDArray[Any], z: Features, clusters: IntArray, graph: Neighbours) -> ClusterPairs:
    """Compute the closeness of every pair of clusters.

    Args:
        q: probabilities, (N, C).
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        graph: the neighbours of each image.

    Raises:
        UsageError: an image has no cluster.
    """
    sums, sizes = sum_by_cluster(z, clusters, min_count=q.shape[1])
    count = len(sizes)
    links = np.zeros(count * count, dtype=np.int64)
    shared = np.zeros((count, count))
    for start in range(0, len(clusters), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        pairs = clusters[part, None] * count + clusters[graph.positions[part]]
        links += np.bincount(pairs.ravel(), minlength=count * count)
        _add_by_cluster(shared[:, : q.shape[1]], np.asarray(q[part]), clusters[part])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    means = sums / np.where(lengths > 0, lengths, 1)
    return ClusterPairs(sizes, links.reshape(count, count), means @ means.T, shared / np.maximum(sizes, 1)[:, None])


def sum_by_cluster(z: Features, clusters: IntArray, min_count: int = 0) -> tuple[DoubleArray, IntArray]:
    """Return the sum of the unit vectors of each cluster, (C, d), and the number of images, (C,).

    Args:
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        min_count: minimum number of clusters C in the result.

    Raises:
        UsageError: an image has no cluster.
    """
    if clusters.min() < 0:
        raise UsageError(
            f"Cluster {clusters.min()} is not allowed: numbers start at 0.", advice="Exclude images without a cluster."
        )
    count = max(int(clusters.max()) + 1, min_count)
    sums = np.zeros((count, z.shape[1]))
    for start, chunk in iterate_normalized_chunks(z):
        _add_by_cluster(sums, chunk, clusters[start : start + len(chunk)])
    return sums, np.bincount(clusters, minlength=count)


def _add_by_cluster(totals: DoubleArray, rows: NDArray[Any], clusters: IntArray) -> None:
    """Add each row to the total of its cluster, several times faster than `np.add.at`."""
    order = np.argsort(clusters, kind="stable")
    numbers, firsts = np.unique(clusters[order], return_index=True)
    totals[numbers] += np.add.reduceat(rows[order].astype(np.float64), firsts, axis=0)
