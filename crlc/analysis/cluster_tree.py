"""Tree of clusters: small clusters that are merged step by step, so that every number of clusters is a level of it.

Each step merges the pair that loses the least mutual information between the clusters of images and of their
neighbours. The number of clusters is suggested from such trees of k-means clusters (`cluster_count`). The tree of given
clusters first divides each of them by k-means; pieces of different clusters are merged only once every cluster is
whole again. One of its levels are therefore the given clusters: finer levels divide them, and coarser ones merge them.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.arrays import DoubleArray, Features, IntArray
from crlc.errors import UsageError

_MAX_FITTED_ROWS = 4_000
"""K-means of one cluster is fitted on at most so many rows."""

_MAX_GRAPH_ROWS = 10_000
_NEIGHBOURS = 20
_MIN_SMALL_CLUSTERS, _MAX_SMALL_CLUSTERS = 24, 120
"""Range of the number of small clusters: the time grows with its fourth power, to 4 s."""

_MAX_CLUSTERS = 200
_SMALL_PER_CLUSTER = 3
_IMAGES_PER_SMALL_CLUSTER = 10
"""Minimum mean size of the small clusters of one cluster."""


class MergeTree(NamedTuple):
    """Small clusters, and the clusters that remain of them after each merge."""

    small_cluster: NDArray[np.int64]
    """Small cluster of each image, (N,)."""

    information: DoubleArray
    """Mutual information between the clusters of neighbours with 1, 2, ... clusters."""

    cluster_of: dict[int, NDArray[np.int64]]
    """For each number of clusters, the cluster of each small cluster."""


def build_cluster_tree(
    features: Features, clusters: IntArray, neighbours: NDArray[Any] | None = None, *, seed: int = 0
) -> tuple[MergeTree, IntArray]:
    """Build the tree of given clusters.

    Args:
        features: (N, d).
        clusters: cluster of each row, (N,).
        neighbours: positions of the neighbours of each row, (N, k); `None` to find those of a sample.
        seed: seed of k-means.

    Returns:
        The tree, and the cluster that each of its small clusters is a part of.

    Raises:
        UsageError: there are fewer than two rows, or too many clusters.
    """
    numbers, sizes = np.unique(clusters, return_counts=True)
    if len(clusters) <= 1 or len(numbers) > _MAX_CLUSTERS:
        raise UsageError(
            f"{len(clusters):,} images in {len(numbers):,} clusters have no levels: at least 2 images and at most "
            f"{_MAX_CLUSTERS} clusters are needed."
        )
    wanted = min(max(_SMALL_PER_CLUSTER * len(numbers), _MIN_SMALL_CLUSTERS), _MAX_SMALL_CLUSTERS)
    small_cluster = np.empty(len(clusters), np.int64)
    owner: list[int] = []
    for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
        rows = np.flatnonzero(clusters == number)
        pieces = max(1, min(round(wanted * size / len(clusters)), size // _IMAGES_PER_SMALL_CLUSTER))
        if len(numbers) >= _MAX_SMALL_CLUSTERS:
            pieces = 1
        found = np.zeros(size, np.int64)
        if pieces > 1:
            found = divide_rows(np.asarray(features[rows], np.float32), pieces, seed, max_fitted_rows=_MAX_FITTED_ROWS)
        kept, found = np.unique(found, return_inverse=True)
        small_cluster[rows] = len(owner) + found
        owner += [number] * len(kept)
    sample = np.arange(len(clusters))
    if neighbours is None:
        sample = np.linspace(0, len(clusters) - 1, min(len(clusters), _MAX_GRAPH_ROWS)).astype(np.int64)
        vectors = np.asarray(features[sample], np.float32)
        neighbours = build_neighbour_graph(vectors, min(_NEIGHBOURS, len(sample) - 1)).positions
    joint = compute_neighbour_joint(small_cluster[sample], neighbours, len(owner))
    owners = np.array(owner, np.int64)
    return merge_stepwise(joint, small_cluster, owners), owners


def divide_rows(
    features: NDArray[np.float32], pieces: int, seed: int, *, max_fitted_rows: int | None = None
) -> NDArray[np.int64]:
    """Return the piece of each row, by k-means; some pieces may be empty if rows are equal.

    Args:
        features: (N, d).
        pieces: number of pieces.
        seed: seed of k-means.
        max_fitted_rows: fit the centres on at most so many rows; `None` for all.
    """
    from sklearn.cluster import KMeans

    model = KMeans(pieces, n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than pieces
        if max_fitted_rows is None or len(features) <= max_fitted_rows:
            found: NDArray[np.int64] = model.fit_predict(features).astype(np.int64)
            return found
        model.fit(features[:: -(-len(features) // max_fitted_rows)])
    return np.asarray(model.predict(features), np.int64)


def compute_neighbour_joint(cluster: NDArray[np.int64], neighbours: NDArray[Any], clusters: int) -> DoubleArray:
    """Return the joint distribution of the clusters of images and of their neighbours, (C, C), symmetric.

    Args:
        cluster: cluster of each image, (N,).
        neighbours: positions of the neighbours of each image, (N, k).
        clusters: number of clusters C.
    """
    pairs = np.repeat(cluster, neighbours.shape[1]) * clusters + cluster[neighbours].ravel()
    counts = np.bincount(pairs, minlength=clusters * clusters).reshape(clusters, clusters).astype(np.float64)
    joint: DoubleArray = (counts + counts.T) / (2 * counts.sum())
    return joint


def merge_stepwise(joint: DoubleArray, small_cluster: NDArray[np.int64], cluster: IntArray | None = None) -> MergeTree:
    """Merge the pair of clusters with the lowest cost until one cluster is left.

    Args:
        joint: joint distribution of the small clusters of images and neighbours, (S, S).
        small_cluster: small cluster of each image, (N,).
        cluster: cluster that each small cluster is a part of, (S,); its parts are merged first. `None` for no clusters.
    """
    owner = np.zeros(len(joint), np.int64) if cluster is None else cluster
    information = [compute_information(joint)]
    now = np.arange(len(joint))
    cluster_of = {len(joint): now}
    while len(joint) > 1:
        cost = compute_merge_costs(joint)
        is_same = owner[:, None] == owner[None, :]
        if is_same.sum() > len(joint):  # a cluster still has several parts
            cost[~is_same] = np.inf
        first, second = sorted(int(index) for index in np.unravel_index(np.argmin(cost), cost.shape))
        joint, owner = merge_pair(joint, first, second), np.delete(owner, second)
        now = np.where(now == second, first, now)
        now = np.where(now > second, now - 1, now)
        cluster_of[len(joint)] = now
        information.append(compute_information(joint))
    return MergeTree(small_cluster, np.array(information[::-1]), cluster_of)


def compute_information(joint: DoubleArray) -> float:
    """Return the mutual information of a symmetric joint distribution, in nats."""
    marginal = joint.sum(axis=1)
    return float(_x_log_x(joint).sum() - 2 * _x_log_x(marginal).sum())


def compute_merge_costs(joint: DoubleArray) -> DoubleArray:
    """Compute the information lost by merging each pair of clusters.

    Args:
        joint: joint distribution of the clusters of images and neighbours, symmetric, (k, k).

    Returns:
        Costs in nats, (k, k); infinite on the diagonal.
    """
    sums, own = joint.sum(axis=1), joint.diagonal()
    terms = _x_log_x(joint)
    # The two rows of a pair become one; the entries between the two become part of its diagonal element.
    rows = 2 * (terms.sum(axis=1)[:, None] + terms.sum(axis=1)[None, :] - _x_log_x(joint[:, None] + joint[None]).sum(2))
    # The entries of the pair (i, j) in column i.
    with_first = _x_log_x(own[:, None] + joint) - terms.diagonal()[:, None] - terms
    rows += 2 * (with_first + with_first.T)
    corner = terms.diagonal()[:, None] + terms.diagonal()[None, :] + 2 * terms
    corner = corner - _x_log_x(own[:, None] + own[None, :] + 2 * joint)
    marginal = _x_log_x(sums)[:, None] + _x_log_x(sums)[None, :] - _x_log_x(sums[:, None] + sums[None, :])
    cost = rows + corner - 2 * marginal
    np.fill_diagonal(cost, np.inf)
    return cost  # type: ignore[no-any-return, unused-ignore]


def merge_pair(joint: DoubleArray, first: int, second: int) -> DoubleArray:
    """Return the joint distribution after merging two clusters; the numbers above `second` become one smaller."""
    joint = joint.copy()
    joint[first] += joint[second]
    joint[:, first] += joint[:, second]
    return np.delete(np.delete(joint, second, axis=0), second, axis=1)


def _x_log_x(x: DoubleArray) -> DoubleArray:
    return x * np.log(np.where(x > 0, x, 1.0))
