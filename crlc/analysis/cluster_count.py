"""Suggestion of the number of clusters without classes, from the information that each further cluster adds.

K-means divides the images into many small clusters. These are merged step by step down to one cluster; each step merges
the pair that loses the least mutual information between the clusters of images and of their neighbours. Up to the
number of groups in the data, the k-th cluster adds nearly the possible maximum, log(k / (k - 1)) nats. Further clusters
only divide a group between neighbours, and add little. The suggestion is the k after which this fraction drops.

A second vote is the agreement between clusterings from different seeds, which were merged to the same k. Numbers above
the suggestion are in the plausible range while a further cluster adds clearly more than those far beyond the step, and
the seeds still agree on the clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_metrics import compute_contingency
from crlc.analysis.cluster_tree import MergeTree, compute_neighbour_joint, divide_rows, merge_stepwise
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.arrays import DoubleArray, Features, IntArray
from crlc.errors import UsageError
from crlc.progress import ROUNDS, ProgressCallback, ProgressStage, no_progress

DEFAULT_MAX_CLUSTERS = 60
_NEIGHBOURS = 20
_SEEDS = 5
"""Number of k-means clusterings; their curves are averaged."""

_MAX_SAMPLED_IMAGES = 20_000
_IMAGES_PER_SMALL_CLUSTER = 10
"""Minimum mean size of the small clusters of k-means."""

_MIN_IMAGES = 40
_FIT_TOLERANCE = 1.25
"""Fits with a residual up to this multiple of the smallest count as equally good."""

_MIN_FITTED_VALUES = 12
_FITTED_MULTIPLE = 3
"""The step is fitted to the curve up to this multiple of the suggestion: a long tail would hide an early step."""

_MIN_RELATIVE_GAIN = 0.25
"""A further cluster is plausible if it adds this much: 0 is the level far beyond the step, and 1 that before it."""

_MIN_RELATIVE_AGREEMENT = 0.75
"""A further cluster is plausible if seeds agree this much on it, as a fraction of their agreement at the suggestion."""

_LOWEST_MAXIMUM, _HIGHEST_MAXIMUM = 3, 100
"""Range of `max_clusters`."""


@dataclass(frozen=True)
class ClusterCountSuggestion:
    """A suggested number of clusters, with the curve that it was derived from."""

    suggestion: int
    lowest: int
    """The lowest plausible number of clusters."""

    highest: int
    """The highest plausible number of clusters."""

    counts: NDArray[np.int64]
    """The numbers of clusters k of the curve, from 2."""

    information: DoubleArray
    """Mutual information between the clusters of neighbours with k clusters, in nats; mean over the seeds."""

    added_fraction: DoubleArray
    """Information that the k-th cluster adds, as a fraction of the possible maximum."""

    agreement: DoubleArray
    """Agreement of the seeds on the clusters, for each k: the mean adjusted Rand index over all pairs of seeds."""

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
        raise UsageError(
            f"To suggest a number of clusters, at least {_MIN_IMAGES} images are needed; there are {len(features)}."
        )
    if not _LOWEST_MAXIMUM <= max_clusters <= _HIGHEST_MAXIMUM:
        raise UsageError(
            f"The highest number of clusters to try, {max_clusters}, is not allowed: "
            f"it must be from {_LOWEST_MAXIMUM} to {_HIGHEST_MAXIMUM}."
        )
    rows = np.linspace(0, len(features) - 1, min(len(features), _MAX_SAMPLED_IMAGES)).astype(np.int64)
    sample = np.asarray(features[rows], np.float32)
    neighbours = build_neighbour_graph(sample, min(_NEIGHBOURS, len(sample) - 1)).positions
    pieces = min(2 * max_clusters, max(4, len(sample) // _IMAGES_PER_SMALL_CLUSTER))
    stage = ProgressStage("Counting clusters", _SEEDS, report, ROUNDS)
    trees = []
    for offset in range(_SEEDS):
        small_cluster = divide_rows(sample, pieces, seed + offset)
        trees.append(merge_stepwise(compute_neighbour_joint(small_cluster, neighbours, pieces), small_cluster))
        stage.advance()
    stage.finish()
    last = min(max_clusters + 2, pieces - 1)  # a step is visible only if there are values after it
    fractions = np.stack([_compute_added_fractions(tree.information)[: last - 1] for tree in trees])
    mean = fractions.mean(axis=0)
    counts = np.arange(2, last + 1)
    agreement = _compute_seed_agreement(trees, counts.tolist())
    suggestion, clearness = _find_step(mean)
    by_seed = tuple(_find_step(one)[0] for one in fractions)
    return ClusterCountSuggestion(
        suggestion=suggestion,
        lowest=min(suggestion, *by_seed),
        highest=max(_find_highest(mean, agreement, suggestion), *by_seed),
        counts=counts,
        information=np.mean([tree.information for tree in trees], axis=0)[1:last],
        added_fraction=mean,
        agreement=agreement,
        clearness=clearness,
        suggestion_by_seed=by_seed,
    )


def _compute_seed_agreement(trees: Sequence[MergeTree], counts: Iterable[int]) -> DoubleArray:
    """Return the mean adjusted Rand index between the clusters of all pairs of seeds, for each number of clusters."""
    agreements = []
    for one, two in combinations(trees, 2):
        shared = compute_contingency(one.small_cluster, two.small_cluster)
        agreements.append([_compute_adjusted_rand_index(_sum_by_cluster(shared, one, two, count)) for count in counts])
    mean: DoubleArray = np.mean(agreements, axis=0)
    return mean


def _sum_by_cluster(shared: IntArray, one: MergeTree, two: MergeTree, count: int) -> DoubleArray:
    """Return the contingency table of the clusters, given that of the small clusters."""
    table: DoubleArray = np.eye(count)[one.cluster_of[count]].T @ shared @ np.eye(count)[two.cluster_of[count]]
    return table


def _compute_adjusted_rand_index(table: DoubleArray) -> float:
    """Return the adjusted Rand index of a contingency table of two clusterings."""
    both, first, second, all_pairs = (
        float((counts * (counts - 1) / 2).sum())
        for counts in (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    )
    by_chance = first * second / all_pairs
    return 1.0 if first == second == both else (both - by_chance) / ((first + second) / 2 - by_chance)


def _find_highest(fractions: DoubleArray, agreement: DoubleArray, suggestion: int) -> int:
    """Return the highest plausible number of clusters: as long as a further cluster adds much, and seeds agree on it.

    Args:
        fractions: information that the k-th cluster adds, for k = 2, 3, ...
        agreement: agreement of the seeds with k clusters.
        suggestion: the number of clusters at the step of the curve.
    """
    at = suggestion - 1  # position of the first cluster after the step
    if at >= len(fractions):
        return suggestion
    before, far_beyond = fractions[:at].mean(), np.median(fractions[at + (len(fractions) - at) // 2 :])
    is_plausible = (fractions >= far_beyond + _MIN_RELATIVE_GAIN * (before - far_beyond)) & (
        agreement >= _MIN_RELATIVE_AGREEMENT * agreement[at - 1]
    )
    implausible = np.flatnonzero(~is_plausible[at:])
    return suggestion + (int(implausible[0]) if len(implausible) else len(fractions) - at)


def _compute_added_fractions(information: DoubleArray) -> DoubleArray:
    """Return the information that the k-th cluster adds, for k = 2, 3, ..., as a fraction of log(k / (k - 1))."""
    counts = np.arange(2, len(information) + 1)
    return np.diff(information) / np.log(counts / (counts - 1))


def _find_step(fractions: DoubleArray) -> tuple[int, float]:
    """Return the number of clusters at the step of the curve, and the explained fraction of the variance.

    The step is found on the whole curve, and then once more on its beginning.
    """
    rough, _ = _fit_step(fractions)
    return _fit_step(fractions[: max(_MIN_FITTED_VALUES, _FITTED_MULTIPLE * rough)])


def _fit_step(fractions: DoubleArray) -> tuple[int, float]:
    """Fit two constant levels. Among fits that are nearly as good as the best, choose that with the fewest clusters."""
    total = float(((fractions - fractions.mean()) ** 2).sum())
    levels = ((fractions[:at], fractions[at:]) for at in range(1, len(fractions)))
    residuals = np.array([float(sum(((part - part.mean()) ** 2).sum() for part in pair)) for pair in levels])
    chosen = int(np.flatnonzero(residuals <= _FIT_TOLERANCE * residuals.min())[0])
    return chosen + 2, 0.0 if total == 0 else 1 - float(residuals[chosen]) / total
