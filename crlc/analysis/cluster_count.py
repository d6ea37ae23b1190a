"""Suggestion of the number of clusters without classes, from the information that each further cluster adds.

K-means divides the images into many small clusters. These are merged step by step down to one cluster; each step merges
the pair that loses the least mutual information between the clusters of images and of their neighbours. Up to the
number of groups in the data, the k-th cluster adds nearly the possible maximum, log(k / (k - 1)) nats. Further clusters
only divide a group between neighbours, and add little. The suggestion is the k after which this fraction drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.arrays import DoubleArray, Features
from crlc.errors import UsageError
from crlc.progress import ROUNDS, ProgressCallback, ProgressStage, no_progress

DEFAULT_MAX_CLUSTERS = 20
_NEIGHBOURS = 20
_SEEDS = 5
"""Number of k-means clusterings; their curves are averaged."""

_MAX_SAMPLED_IMAGES = 20_000
_IMAGES_PER_SMALL_CLUSTER = 10
"""Minimum mean size of the small clusters of k-means."""

_MIN_IMAGES = 40
_FIT_TOLERANCE = 1.25
"""Fits with a residual up to this multiple of the smallest count as equally good."""

_LOWEST_MAXIMUM, _HIGHEST_MAXIMUM = 3, 100
"""Range of `max_clusters`."""


@dataclass(frozen=True)
class ClusterCountSuggestion:
    """A suggested number of clusters, with the curve that it was derived from."""

    suggestion: int
    counts: NDArray[np.int64]
    """The numbers of clusters k of the curve, from 2."""

    information: DoubleArray
    """Mutual information between the clusters of neighbours with k clusters, in nats; mean over the seeds."""

    added_fraction: DoubleArray
    """Information that the k-th cluster adds, as a fraction of the possible maximum."""

    clearness: float
    """Clearness of the step in the curve, from 0 (no step) to 1 (a clear step)."""

    suggestion_by_seed: tuple[int, ...]
    """The suggestion of each seed alone."""


def suggest_cluster_count(
    features: Features,
    *,
    max_clusters: int = DEFAULT_MAX_CLUSTERS,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> ClusterCountSuggestion:
    """Suggest a number of clusters for features such as the projected vectors of a backbone.

    Args:
        features: (N, d); of more than 20,000 images, a sample is used.
        max_clusters: the highest number to try, from 3 to 100.
        seed: seed of the first of several k-means clusterings.
        report: receives the progress.

    Raises:
        UsageError: there are too few images, or `max_clusters` is not allowed.
    """
    if len(features) < _MIN_IMAGES:
        raise UsageError(f"clusters='auto' needs at least {_MIN_IMAGES} images; there are {len(features)}.")
    if not _LOWEST_MAXIMUM <= max_clusters <= _HIGHEST_MAXIMUM:
        raise UsageError(
            f"clusters='auto:{max_clusters}' is not allowed: "
            f"the highest number must be from {_LOWEST_MAXIMUM} to {_HIGHEST_MAXIMUM}."
        )
    rows = np.linspace(0, len(features) - 1, min(len(features), _MAX_SAMPLED_IMAGES)).astype(np.int64)
    sample = np.asarray(features[rows], np.float32)
    neighbours = build_neighbour_graph(sample, min(_NEIGHBOURS, len(sample) - 1)).positions
    pieces = min(2 * max_clusters, max(4, len(sample) // _IMAGES_PER_SMALL_CLUSTER))
    stage = ProgressStage("Counting clusters", _SEEDS, report, ROUNDS)
    curves = []
    for offset in range(_SEEDS):
        curves.append(_compute_information_curve(_compute_joint(sample, neighbours, pieces, seed + offset)))
        stage.advance()
    stage.finish()
    highest = min(max_clusters + 2, pieces - 1)  # a step is visible only if there are values after it
    fractions = np.stack([_compute_added_fractions(curve)[: highest - 1] for curve in curves])
    mean = fractions.mean(axis=0)
    suggestion, clearness = _find_step(mean)
    return ClusterCountSuggestion(
        suggestion=suggestion,
        counts=np.arange(2, highest + 1),
        information=np.mean(curves, axis=0)[1:highest],
        added_fraction=mean,
        clearness=clearness,
        suggestion_by_seed=tuple(_find_step(one)[0] for one in fractions),
    )


def _compute_joint(features: NDArray[np.float32], neighbours: NDArray[Any], pieces: int, seed: int) -> DoubleArray:
    """Return the joint distribution of the small clusters of images and neighbours, (pieces, pieces), symmetric."""
    from sklearn.cluster import KMeans

    piece = KMeans(pieces, n_init=1, random_state=seed).fit_predict(features).astype(np.int64)
    pairs = np.repeat(piece, neighbours.shape[1]) * pieces + piece[neighbours].ravel()
    counts = np.bincount(pairs, minlength=pieces * pieces).reshape(pieces, pieces).astype(np.float64)
    joint: DoubleArray = (counts + counts.T) / (2 * counts.sum())
    return joint


def _compute_information_curve(joint: DoubleArray) -> DoubleArray:
    """Return the information with 1, 2, ... clusters, merging the pair with the lowest cost at each step."""
    information = [_compute_information(joint)]
    while len(joint) > 1:
        cost = compute_merge_costs(joint)
        first, second = np.unravel_index(np.argmin(cost), cost.shape)
        joint = _merge(joint, int(min(first, second)), int(max(first, second)))
        information.append(_compute_information(joint))
    return np.array(information[::-1])


def _compute_information(joint: DoubleArray) -> float:
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
    return cost  # type: ignore[no-any-return]


def _merge(joint: DoubleArray, first: int, second: int) -> DoubleArray:
    joint = joint.copy()
    joint[first] += joint[second]
    joint[:, first] += joint[:, second]
    return np.delete(np.delete(joint, second, axis=0), second, axis=1)


def _x_log_x(x: DoubleArray) -> DoubleArray:
    return x * np.log(np.where(x > 0, x, 1.0))


def _compute_added_fractions(information: DoubleArray) -> DoubleArray:
    """Return the information that the k-th cluster adds, for k = 2, 3, ..., as a fraction of log(k / (k - 1))."""
    counts = np.arange(2, len(information) + 1)
    return np.diff(information) / np.log(counts / (counts - 1))


def _find_step(fractions: DoubleArray) -> tuple[int, float]:
    """Fit two constant levels; return the number of clusters at the step, and the explained fraction of the variance.

    Among fits that are nearly as good as the best, the one with the fewest clusters is chosen.
    """
    total = float(((fractions - fractions.mean()) ** 2).sum())
    levels = ((fractions[:at], fractions[at:]) for at in range(1, len(fractions)))
    residuals = np.array([float(sum(((part - part.mean()) ** 2).sum() for part in pair)) for pair in levels])
    chosen = int(np.flatnonzero(residuals <= _FIT_TOLERANCE * residuals.min())[0])
    return chosen + 2, 0.0 if total == 0 else 1 - float(residuals[chosen]) / total
