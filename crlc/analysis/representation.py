"""Comparison of two representations of the same images without classes: each is judged by the other's neighbours."""

from __future__ import annotations

import numpy as np

from crlc.analysis.cluster_tree import compute_information, compute_neighbour_joint
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.arrays import Features

_NEIGHBOURS = 10
_KMEANS_STARTS = 3


def compare_representations(one: Features, two: Features, clusters: int, seed: int = 0) -> tuple[float, float]:
    """Return how well the clusters of each representation hold between the neighbours of the other one.

    K-means clusters of one representation are compared with the neighbours in the other, and the reverse. Neither has
    an advantage, unlike with neighbours of its own: a representation that groups by the wrong property agrees with
    itself perfectly.

    Args:
        one: features of the images, (N, d).
        two: other features of the same images, (N, e).
        clusters: number of clusters C.
        seed: seed of k-means.

    Returns:
        Mutual information between the clusters of neighbours, divided by log C, for `one` and for `two`.
    """
    return _measure(one, two, clusters, seed), _measure(two, one, clusters, seed)


def _measure(clustered: Features, judge: Features, clusters: int, seed: int) -> float:
    from sklearn.cluster import KMeans

    found = KMeans(clusters, n_init=_KMEANS_STARTS, random_state=seed).fit_predict(clustered).astype(np.int64)
    neighbours = build_neighbour_graph(judge, min(_NEIGHBOURS, len(judge) - 1)).positions
    return compute_information(compute_neighbour_joint(found, neighbours, clusters)) / float(np.log(clusters))
