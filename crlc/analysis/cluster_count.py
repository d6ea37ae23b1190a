"""How many clusters there seem to be, without classes: the information that each further cluster adds.

Images are cut into many small clusters by k-means. Then the two clusters are merged whose merger costs the least
information between the cluster of an image and that of its neighbours; and so on down to one. While the groups that
really are there are many enough, one more cluster adds about as much as it can, log(k / (k - 1)) nats; after that
it only cuts a group in two, between neighbours, and adds little. The suggestion is where this share falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours import neighbour_graph
from crlc.errors import UsageError
from crlc.progress import ROUNDS, ProgressCallback, Stage, no_progress

MOST_CLUSTERS = 20
_NEIGHBOURS = 20
_SEEDS = 5
_SAMPLE = 20_000
_IMAGES_PER_CLUSTER = 10
"""Small clusters have at least so many images on average."""

_LEAST_IMAGES = 40
_AS_GOOD = 1.25
_FEWEST, _HIGHEST = 3, 100
Values = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterCount:
    """A suggested number of clusters, with the curve it was read from."""

    suggestion: int
    counts: NDArray[np.int64]
    """k, from 2 up."""

    information: Values
    """Nats between the clusters of neighbours with k clusters; the mean over several cuts."""

    added_share: Values
    """What the k-th cluster adds, as a share of the most it could."""

    clearness: float
    """From 0, a slope without a step, to 1, a clear step: how far to trust the suggestion."""

    by_cut: tuple[int, ...]
    """What each cut alone would suggest."""


def suggest_cluster_count(
    features: NDArray[Any],
    *,
    most: int = MOST_CLUSTERS,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> ClusterCount:
    """Suggest a number of clusters for features like the projected vectors of a backbone.

    Args:
        features: (N, d); of many images a sample is taken.
        most: the highest number to be tried.
        seed: of the first cut.
        report: told how far it is.

    Raises:
        UsageError: too few images, or a range that cannot be tried.
    """
    if len(features) < _LEAST_IMAGES:
        raise UsageError(f"clusters='auto' needs at least {_LEAST_IMAGES} images; there are {len(features)}.")
    if not _FEWEST <= most <= _HIGHEST:
        raise UsageError(f"clusters='auto:{most}' is not allowed: the highest number must be at least 3, at most 100.")
    rows = np.linspace(0, len(features) - 1, min(len(features), _SAMPLE)).astype(np.int64)
    sample = np.asarray(features[rows], np.float32)
    neighbours = neighbour_graph(sample, min(_NEIGHBOURS, len(sample) - 1)).positions
    pieces = min(2 * most, max(4, len(sample) // _IMAGES_PER_CLUSTER))
    stage = Stage("Counting clusters", _SEEDS, report, ROUNDS)
    curves = []
    for cut in range(_SEEDS):
        curves.append(_information_by_count(_joint(sample, neighbours, pieces, seed + cut)))
        stage.advance()
    stage.finish()
    highest = min(most + 2, pieces - 1)  # a step is only seen with something behind it
    shares = np.stack([_added_shares(curve)[: highest - 1] for curve in curves])
    mean = shares.mean(axis=0)
    suggestion, clearness = _step(mean)
    return ClusterCount(
        suggestion=suggestion,
        counts=np.arange(2, highest + 1),
        information=np.mean(curves, axis=0)[1:highest],
        added_share=mean,
        clearness=clearness,
        by_cut=tuple(_step(one)[0] for one in shares),
    )


def _joint(features: NDArray[np.float32], neighbours: NDArray[Any], pieces: int, seed: int) -> Values:
    """How often an image of one small cluster has a neighbour in another, (pieces, pieces), symmetric, sum 1."""
    from sklearn.cluster import KMeans

    cut = KMeans(pieces, n_init=1, random_state=seed).fit_predict(features).astype(np.int64)
    pairs = np.repeat(cut, neighbours.shape[1]) * pieces + cut[neighbours].ravel()
    counts = np.bincount(pairs, minlength=pieces * pieces).reshape(pieces, pieces).astype(np.float64)
    joint: Values = (counts + counts.T) / (2 * counts.sum())
    return joint


def _information_by_count(joint: Values) -> Values:
    """Nats with 1, 2, ... clusters, always merging the two that cost least."""
    information = [_information(joint)]
    while len(joint) > 1:
        cost = merging_costs(joint)
        first, second = np.unravel_index(np.argmin(cost), cost.shape)
        joint = _merged(joint, int(min(first, second)), int(max(first, second)))
        information.append(_information(joint))
    return np.array(information[::-1])


def _information(joint: Values) -> float:
    shares = joint.sum(axis=1)
    return float(_x_log_x(joint).sum() - 2 * _x_log_x(shares).sum())


def merging_costs(joint: Values) -> Values:
    """The information that merging each pair of clusters costs, (k, k); infinite on the diagonal."""
    shares, own = joint.sum(axis=1), joint.diagonal()
    terms = _x_log_x(joint)
    # Rows of the pair become one; their entries with each other go into the corner.
    rows = 2 * (terms.sum(axis=1)[:, None] + terms.sum(axis=1)[None, :] - _x_log_x(joint[:, None] + joint[None]).sum(2))
    with_first = _x_log_x(own[:, None] + joint) - terms.diagonal()[:, None] - terms  # the pair's entries in column i
    rows += 2 * (with_first + with_first.T)
    corner = terms.diagonal()[:, None] + terms.diagonal()[None, :] + 2 * terms
    corner = corner - _x_log_x(own[:, None] + own[None, :] + 2 * joint)
    marginal = _x_log_x(shares)[:, None] + _x_log_x(shares)[None, :] - _x_log_x(shares[:, None] + shares[None, :])
    cost = rows + corner - 2 * marginal
    np.fill_diagonal(cost, np.inf)
    return cost  # type: ignore[no-any-return]


def _merged(joint: Values, first: int, second: int) -> Values:
    joint = joint.copy()
    joint[first] += joint[second]
    joint[:, first] += joint[:, second]
    return np.delete(np.delete(joint, second, axis=0), second, axis=1)


def _x_log_x(x: Values) -> Values:
    return x * np.log(np.where(x > 0, x, 1.0))


def _added_shares(information: Values) -> Values:
    """For k = 2, 3, ...: what the k-th cluster adds, as a share of log(k / (k - 1))."""
    counts = np.arange(2, len(information) + 1)
    return np.diff(information) / np.log(counts / (counts - 1))


def _step(shares: Values) -> tuple[int, float]:
    """Where two levels fit the shares, as a number of clusters; and the part of their variance that explains.

    Of fits that are about as good as the best it is the one with the fewest clusters.
    """
    total = float(((shares - shares.mean()) ** 2).sum())
    left_over = np.array(
        [
            float(((shares[:at] - shares[:at].mean()) ** 2).sum() + ((shares[at:] - shares[at:].mean()) ** 2).sum())
            for at in range(1, len(shares))
        ]
    )
    chosen = int(np.flatnonzero(left_over <= _AS_GOOD * left_over.min())[0])
    return chosen + 2, 0.0 if total == 0 else 1 - float(left_over[chosen]) / total
