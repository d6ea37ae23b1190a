"""What to look at next: clusters that may be one, clusters that may be two. A person decides; here is the evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cluster_pairs import ClusterPairs
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Rows, unit

_FEWEST_IMAGES = 20
_MOST_IMAGES = 4000
_ROUNDS = 20
_ONE_HUMP = 2 / np.pi
"""The share of the variance of a bell curve that cutting it in the middle explains."""

_SMALLEST_PART = 0.1
_CLEARLY_TWO = 0.5
_WORTH_MERGING = 0.02


class MergeSuggestion(NamedTuple):
    """Two clusters and why they may be one."""

    first: int
    second: int
    mixing: float
    """From 0 (no image has a neighbour in the other) to about 1 (as mixed as if they were one). Decides the order."""

    crossing: float
    """The share of the neighbours of images of either that are in the other."""

    similarity: float
    """Cosine between the two means."""

    shared: float
    """The mean probability that images of either have for the other."""

    first_size: int
    second_size: int


class SplitSuggestion(NamedTuple):
    """A cluster and why it may be two."""

    cluster: int
    separation: float
    """From 0 (one hump) to 1 (two that are far apart), measured on images that had no part in finding the halves."""

    sizes: tuple[int, int]
    """Images on either side, larger side first; estimated when the cluster is large."""

    crossing: float
    """The share of neighbours inside the cluster that are on the other side; low when there are two."""

    similarity: float
    """Cosine between the means of the two sides."""

    examples: tuple[int, int]
    """The row nearest to the mean of either side."""


def merge_suggestions(pairs: ClusterPairs, most: int = 10) -> list[MergeSuggestion]:
    """The most mixed pairs of clusters, most mixed first; fewer when few are mixed at all."""
    mixing = pairs.mixing
    first, second = np.triu_indices(len(pairs.size), 1)
    score = mixing[first, second]
    order = np.argsort(-score, kind="stable")[:most]
    neighbours = pairs.links.sum(axis=1)
    return [
        MergeSuggestion(
            first=int(a),
            second=int(b),
            mixing=float(mixing[a, b]),
            crossing=float((pairs.links[a, b] + pairs.links[b, a]) / (neighbours[a] + neighbours[b])),
            similarity=float(pairs.similarity[a, b]),
            shared=_shared(pairs, a, b),
            first_size=int(pairs.size[a]),
            second_size=int(pairs.size[b]),
        )
        for a, b in zip(first[order], second[order], strict=True)
        if mixing[a, b] >= _WORTH_MERGING
    ]


def split_suggestions(
    z: NDArray[Any], clusters: Rows, graph: Neighbours, most: int = 10, *, clear: float = _CLEARLY_TWO
) -> list[SplitSuggestion]:
    """The clusters that look most like two, clearest first; fewer when few do.

    Args:
        z: features, (N, d).
        clusters: the cluster of each image, (N,).
        graph: the neighbours of each image.
        most: how many at most.
        clear: the least separation that is worth mentioning.
    """
    order = np.argsort(clusters, kind="stable")
    numbers, starts = np.unique(clusters[order], return_index=True)
    found = [
        suggestion
        for number, members in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
        if len(members) >= _FEWEST_IMAGES
        and (suggestion := _look_at(number, members, z, clusters, graph)) is not None
        and suggestion.separation >= clear
    ]
    return sorted(found, key=lambda suggestion: -suggestion.separation)[:most]


def _shared(pairs: ClusterPairs, a: int, b: int) -> float:
    sizes = pairs.size[[a, b]]
    return float((pairs.shared[a, b] * sizes[0] + pairs.shared[b, a] * sizes[1]) / sizes.sum())


def _look_at(cluster: int, members: Rows, z: NDArray[Any], clusters: Rows, graph: Neighbours) -> SplitSuggestion | None:
    """Cut a cluster in two by half of its images, and see whether the other half falls into two humps."""
    step = -(-len(members) // _MOST_IMAGES)
    rows = members[::step]
    vectors = unit(z[rows])
    centres = _two_means(vectors[::2])
    axis = centres[1] - centres[0]
    along = vectors @ axis
    side = along > (centres.sum(axis=0) / 2) @ axis
    separation = _two_humps(along[1::2], side[1::2])
    smaller = min(side.mean(), 1 - side.mean())
    if separation is None or smaller < _SMALLEST_PART:
        return None
    means = [vectors[side == which].mean(axis=0) for which in (False, True)]
    examples = [int(rows[np.argmax(np.where(side == which, vectors @ means[which], -np.inf))]) for which in (0, 1)]
    sizes = [round(float((side == which).mean()) * len(members)) for which in (False, True)]
    similarity = float(unit(means[0][None])[0] @ unit(means[1][None])[0])
    if sizes[0] < sizes[1]:
        sizes, examples = sizes[::-1], examples[::-1]
    crossing = _crossing(rows, side, clusters, graph, cluster)
    return SplitSuggestion(cluster, separation, (sizes[0], sizes[1]), crossing, similarity, (examples[0], examples[1]))


def _two_means(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Two centres by k-means, started from a cut across the direction of most variance: no chance in it."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    side = centred @ directions[:, -1] > 0
    centres = (
        np.stack([vectors[~side].mean(axis=0), vectors[side].mean(axis=0)]) if 0 < side.sum() < len(side) else None
    )
    if centres is None:  # all are the same
        return np.stack([vectors[0], vectors[0]])
    for _ in range(_ROUNDS):
        new = vectors @ (centres[1] - centres[0]) > (centres.sum(axis=0) / 2) @ (centres[1] - centres[0])
        if (new == side).all() or not 0 < new.sum() < len(new):
            break
        side = new
        centres = np.stack([vectors[~side].mean(axis=0), vectors[side].mean(axis=0)])
    return centres


def _two_humps(along: NDArray[np.float32], side: NDArray[np.bool_]) -> float | None:
    """The variance that the two sides explain, 0 for what a cut through one bell curve explains, 1 for all of it."""
    total = float(along.var())
    if not 0 < side.sum() < len(side) or total <= 0:
        return None
    within = side.mean() * along[side].var() + (1 - side.mean()) * along[~side].var()
    return max(0.0, float((1 - within / total - _ONE_HUMP) / (1 - _ONE_HUMP)))


def _crossing(rows: Rows, side: NDArray[np.bool_], clusters: Rows, graph: Neighbours, cluster: int) -> float:
    """Of the neighbours that were looked at and are in the cluster, the share on the other side."""
    neighbours = graph.positions[rows]
    place = np.minimum(np.searchsorted(rows, neighbours), len(rows) - 1)  # rows are in order
    known = (rows[place] == neighbours) & (clusters[neighbours] == cluster)
    return float(((side[place] != side[:, None]) & known).sum() / max(1, int(known.sum())))
