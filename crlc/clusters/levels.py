"""Levels of clusters: the current clusters merged into fewer or divided into more, and the edits that make a level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cluster_tree import MergeTree, build_cluster_tree
from crlc.annotations.operations import MergeClusters, OperationGroup, SplitCluster
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore, HistoryEntry
from crlc.arrays import Features, ImageIds, IntArray
from crlc.clusters.clustering import Clustering, EditedClustering
from crlc.errors import UsageError

_MIN_LEVEL = 2


@dataclass(frozen=True)
class ClusterLevels:
    """Clusters of some images at every level, where a level is a number of clusters."""

    ids: ImageIds
    clusters: IntArray
    """Current cluster of each image, (N,)."""

    tree: MergeTree
    owner: IntArray
    """Current cluster that each small cluster of the tree is a part of."""

    @classmethod
    def build(
        cls, ids: ImageIds, clusters: IntArray, features: Features, neighbours: NDArray[Any] | None = None
    ) -> ClusterLevels:
        """Build the levels of clusters.

        Args:
            ids: image ids, (N,).
            clusters: current cluster of each image, (N,).
            features: (N, d).
            neighbours: positions of the neighbours of each image, (N, k); `None` to find those of a sample.

        Raises:
            UsageError: there are fewer than two images, or too many clusters.
        """
        tree, owner = build_cluster_tree(features, clusters, neighbours)
        return cls(ids, clusters, tree, owner)

    @property
    def current(self) -> int:
        """Number of current clusters with images."""
        return len(np.unique(self.owner))

    @property
    def coarsest(self) -> int:
        """Number of clusters of the coarsest level."""
        return min(_MIN_LEVEL, self.current)

    @property
    def finest(self) -> int:
        """Number of clusters of the finest level."""
        return len(self.owner)

    def find_merges(self, level: int) -> list[tuple[int, ...]]:
        """Return the current clusters that each merged cluster of a coarser level consists of."""
        self._check(level)
        cluster_of = self.tree.cluster_of[level]
        groups = [np.unique(self.owner[cluster_of == number]).tolist() for number in range(level)]
        return sorted(tuple(group) for group in groups if len(group) > 1)

    def find_splits(self, level: int) -> dict[int, list[ImageIds]]:
        """Return the ids of the parts of each divided cluster of a finer level, largest part first."""
        self._check(level)
        if level <= self.current:
            return {}
        part = self.tree.cluster_of[level][self.tree.small_cluster]
        splits = {}
        for number in np.unique(self.owner).tolist():
            mine = np.unique(self.tree.cluster_of[level][self.owner == number])
            if len(mine) > 1:
                parts = [self.ids[part == one] for one in mine.tolist()]
                splits[number] = sorted(parts, key=lambda ids: (-len(ids), int(ids[0])))
        return splits

    def assign(self, level: int, first_new: int) -> IntArray:
        """Return the cluster of each image at a level, (N,), numbered as the edit of the level numbers them.

        Args:
            level: number of clusters.
            first_new: number of the first new cluster of a finer level.
        """
        assigned = self.clusters.copy()
        for group in self.find_merges(level):
            assigned[np.isin(self.clusters, group)] = group[0]
        for parts in self.find_splits(level).values():
            for ids in parts[1:]:
                assigned[np.isin(self.ids, ids)] = first_new
                first_new += 1
        return assigned

    def _check(self, level: int) -> None:
        if not self.coarsest <= level <= self.finest:
            raise UsageError(f"level={level} is not allowed: it must be from {self.coarsest} to {self.finest}.")


def build_level_edit(
    levels: ClusterLevels, level: int, clustering: Clustering, state: AnnotationState
) -> OperationGroup | None:
    """Return the edit that turns the current clusters into those of a level; `None` if it is the current level.

    Args:
        levels: levels of the current clusters.
        level: number of clusters.
        clustering: clusters of the result.
        state: the current annotations.

    Raises:
        UsageError: the level does not exist, or the clusters have changed since the levels were built.
    """
    current = clustering.apply_edits(state)
    _require_same_clusters(levels, current)
    run, result = clustering.run, clustering.result
    merges = [MergeClusters(run, result, group) for group in levels.find_merges(level)]
    splits = []
    first_new = current.first_new
    for number, parts in levels.find_splits(level).items():
        members = current.ids[current.find_members(number)]
        left_out = np.setdiff1d(members, np.concatenate(parts))  # excluded images stay in the first part
        ids = (np.union1d(parts[0], left_out), *parts[1:])
        splits.append(SplitCluster(run, result, number, tuple(tuple(part.tolist()) for part in ids), first_new))
        first_new += len(parts) - 1
    if not merges and not splits:
        return None
    return OperationGroup((*merges, *splits), f"use {level} clusters instead of {levels.current}")


def apply_level(
    annotations: AnnotationStore, clustering: Clustering, levels: ClusterLevels, level: int
) -> HistoryEntry | None:
    """Make a level the clusters of a run: one edit, which can be undone. Returns `None` if it is the current level.

    Raises:
        UsageError: the level does not exist, or the clusters have changed since the levels were built.
    """
    return annotations.record(partial(build_level_edit, levels, level, clustering))


def _require_same_clusters(levels: ClusterLevels, current: EditedClustering) -> None:
    rows = np.minimum(np.searchsorted(current.ids, levels.ids), len(current.ids) - 1)
    if not (np.array_equal(current.ids[rows], levels.ids) and np.array_equal(current.clusters[rows], levels.clusters)):
        raise UsageError(
            "The clusters have changed since their levels were computed.", advice="Refresh the page, and choose again."
        )
