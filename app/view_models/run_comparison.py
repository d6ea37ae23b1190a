"""Comparison of two runs: reassigned images, and the effect of training with labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.view_models.cluster_view import RunView
from app.view_models.run_table import RunEntry
from crlc.analysis.comparison import Comparison
from crlc.arrays import ImageIds
from crlc.services.compare_runs import compare_runs


@dataclass(frozen=True)
class Reassignment:
    """Images that are in one cluster in the first run and in another in the second."""

    before: int
    after: int
    ids: ImageIds

    def sample(self, limit: int) -> ImageIds:
        """Return some of the images, evenly spaced over all of them."""
        count = len(self.ids)
        return self.ids[np.unique(np.linspace(0, count - 1, min(count, limit)).astype(np.int64))]


def group_reassigned_images(comparison: Comparison) -> tuple[Reassignment, ...]:
    """Group the reassigned images by both clusters, largest group first."""
    if not len(comparison.reassigned_ids):
        return ()
    pairs = np.stack([comparison.reassigned_from, comparison.reassigned_to], axis=1)
    unique_pairs, pair_indices = np.unique(pairs, axis=0, return_inverse=True)
    pair_indices = pair_indices.reshape(-1)
    groups = [
        Reassignment(int(before), int(after), comparison.reassigned_ids[pair_indices == index])
        for index, (before, after) in enumerate(unique_pairs)
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.ids)))


def find_comparison_pair(entries: Iterable[RunEntry], run: str) -> tuple[str, str] | None:
    """Return the ids of two runs to compare: a run and its newest child, or its parent and itself.

    Returns:
        The older run first; `None` if the run has neither.
    """
    entries = list(entries)
    children = [entry.id for entry in entries if entry.parent == run]
    if children:
        return run, children[-1]
    own = next((entry for entry in entries if entry.id == run), None)
    if own is None or own.parent is None or all(entry.id != own.parent for entry in entries):
        return None
    return own.parent, run


@dataclass(frozen=True)
class RunChanges:
    """Differences between a run trained with labels and its parent."""

    comparison: Comparison
    reassignments: tuple[Reassignment, ...]
    """Largest first."""


def compare_with_parent(before: RunView, after: RunView) -> RunChanges:
    """Compare a run with its parent.

    Args:
        before: the parent.
        after: the run that was started from it.

    Raises:
        CrlcError: the runs have no image in common.
    """
    comparison = compare_runs(before.analysis, after.analysis)
    return RunChanges(comparison, group_reassigned_images(comparison))
