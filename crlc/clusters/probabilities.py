"""Cluster probabilities after the user's edits; pure functions over arrays.

A network has no output for a cluster that a split has created. `merged` maps each merged cluster to the remaining one,
which has a lower number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import FloatArray, IntArray

MISSING = -1
"""Stands for no cluster."""


def merge_probabilities(q: FloatArray, merged: Mapping[int, int]) -> FloatArray:
    """Return the probabilities after merges, (N, C): that of a merged cluster is added to the remaining one, and 0.

    Args:
        q: probabilities that the model predicted, (N, C).
        merged: the remaining cluster of each merged cluster; those beyond C are ignored.
    """
    total = q.copy()
    _add_merged(total, merged)
    return total


def apply_edits_to_probabilities(
    q: NDArray[Any], predicted: IntArray, current: IntArray, merged: Mapping[int, int], count: int
) -> FloatArray:
    """Return the cluster probabilities after all edits, (N, count).

    The probability of a merged cluster is the sum of its parts. The new cluster of a moved image receives the
    probability of its previous cluster.

    Args:
        q: probabilities that the model predicted, (N, C).
        predicted: cluster that the model predicted for each image, (N,).
        current: cluster of each image after edits, (N,).
        merged: the remaining cluster of each merged cluster.
        count: number of columns, one more than the highest cluster number.
    """
    wide = np.zeros((len(q), count), np.float32)
    wide[:, : q.shape[1]] = q
    _add_merged(wide, merged)
    previous = _list_remaining_clusters(count, merged)[predicted]
    moved = np.flatnonzero(previous != current)
    wide[moved, current[moved]] += wide[moved, previous[moved]]
    wide[moved, previous[moved]] = 0
    return wide


def find_second_best(
    q: FloatArray, merged: Mapping[int, int], *own: NDArray[np.int32]
) -> tuple[NDArray[np.int32], FloatArray]:
    """Return the most probable cluster of each row other than its own, and its probability.

    Args:
        q: cluster probabilities, (n, C); modified in place.
        merged: the remaining cluster of each merged cluster; their probabilities are added.
        own: clusters to leave out per row, (n,) each; numbers outside 0..C-1 are ignored.

    Returns:
        Cluster and probability, (n,) each; `MISSING` and NaN if no other cluster exists.
    """
    count = q.shape[1]
    _add_merged(q, merged)
    q[:, [gone for gone in merged if gone < count]] = -1
    remaining = _list_remaining_clusters(count, merged)
    for numbers in own:
        here = np.flatnonzero((numbers >= 0) & (numbers < count))
        q[here, remaining[numbers[here]]] = -1
    second = q.argmax(axis=1).astype(np.int32)
    probability = q[np.arange(len(q)), second]
    has_none = probability < 0
    return np.where(has_none, np.int32(MISSING), second), np.where(has_none, np.float32(np.nan), probability)


def _add_merged(q: FloatArray, merged: Mapping[int, int]) -> None:
    """Add the columns of merged clusters to those of the remaining ones, in place."""
    for gone, kept in merged.items():
        if gone < q.shape[1]:  # then kept < gone has a column, too
            q[:, kept] += q[:, gone]
            q[:, gone] = 0


def _list_remaining_clusters(count: int, merged: Mapping[int, int]) -> IntArray:
    """Return the cluster that each of `count` clusters belongs to after merges, (count,)."""
    remaining = np.arange(count)
    for gone, kept in merged.items():
        if gone < count:
            remaining[gone] = kept
    return remaining
