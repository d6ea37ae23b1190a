"""How near every two clusters are: by the neighbours of their images, by their means, and by shared probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import CHUNK_ROWS, Rows, unit_chunks
from crlc.errors import UsageError

Table = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterPairs:
    """Facts about every two of C clusters."""

    size: Rows
    """(C,) images of each."""

    links: Rows
    """(C, C) how many neighbours of the images of one are in the other."""

    similarity: Table
    """(C, C) cosine between their means; 0 for an empty one."""

    shared: Table
    """(C, C) mean probability that the images of the first have for the second; 0 where the model has no such."""

    @property
    def mixing(self) -> Table:
        """(C, C) links between two, as a share of those there would be if the two were one well mixed cluster.

        0: no neighbours in the other; 1: neighbours without regard to the border. Only links inside the two count,
        so a third cluster nearby changes nothing. 0 on the diagonal.
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

    def closest(self) -> tuple[Rows, Table, Table]:
        """For each cluster the one it is most mixed with (of those by the nearest mean), mixing and similarity.

        -1 and NaN for an empty cluster, and where there is no other.
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


def cluster_pairs(q: NDArray[Any], z: NDArray[Any], clusters: Rows, graph: Neighbours) -> ClusterPairs:
    """Count and measure; (N, C), (N, d), (N,) and the neighbours of the N images."""
    sums, sizes = cluster_sums(z, clusters, at_least=q.shape[1])
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


def cluster_sums(z: NDArray[Any], clusters: Rows, at_least: int = 0) -> tuple[Table, Rows]:
    """The sum of the unit vectors of each cluster, (C, d), and how many there are, (C,).

    Raises:
        UsageError: an image has no cluster.
    """
    if clusters.min() < 0:
        raise UsageError(f"Cluster {clusters.min()} was given; numbers start at 0. Leave out images without a cluster.")
    count = max(int(clusters.max()) + 1, at_least)
    sums = np.zeros((count, z.shape[1]))
    for start, chunk in unit_chunks(z):
        _add_by_cluster(sums, chunk, clusters[start : start + len(chunk)])
    return sums, np.bincount(clusters, minlength=count)


def _add_by_cluster(totals: Table, rows: NDArray[Any], clusters: Rows) -> None:
    """Add each row to the total of its cluster; several times faster than `np.add.at`."""
    order = np.argsort(clusters, kind="stable")
    numbers, firsts = np.unique(clusters[order], return_index=True)
    totals[numbers] += np.add.reduceat(rows[order].astype(np.float64), firsts, axis=0)
