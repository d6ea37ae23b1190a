"""Levels of the clusters of a run: what a level changes, and the edit that makes it."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_tree import MergeTree
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.clusters.levels import ClusterLevels, apply_level
from crlc.errors import UsageError
from tests.clusters.test_clustering import FOUND, annotations, clustering, dataset, editor  # noqa: F401  (fixtures)

# Images 1 to 8 in five small clusters: cluster 0 has two of them, cluster 1 one, cluster 2 two.
SMALL = [0, 0, 1, 2, 2, 3, 3, 4]
CLUSTER_OF = {1: [0] * 5, 2: [0, 0, 0, 1, 1], 3: [0, 0, 1, 2, 2], 4: [0, 0, 1, 2, 3], 5: [0, 1, 2, 3, 4]}


def make_levels(kept: list[int] | None = None) -> ClusterLevels:
    rows = np.arange(8) if kept is None else np.array(kept)
    tree = MergeTree(
        np.array(SMALL)[rows], np.zeros(5), {level: np.array(numbers) for level, numbers in CLUSTER_OF.items()}
    )
    return ClusterLevels(rows + 1, np.array(FOUND)[rows], tree, np.array([0, 0, 1, 2, 2]))


def test_levels_merge_below_and_divide_above_the_current_clusters():
    levels = make_levels()
    assert (levels.coarsest, levels.current, levels.finest) == (2, 3, 5)
    assert levels.find_merges(2) == [(0, 1)]
    assert levels.find_merges(3) == levels.find_merges(4) == []
    assert levels.find_splits(2) == levels.find_splits(3) == {}
    parts = {number: [ids.tolist() for ids in found] for number, found in levels.find_splits(5).items()}
    assert parts == {0: [[1, 2], [3]], 2: [[6, 7], [8]]}
    assert levels.assign(2, 4).tolist() == [0, 0, 0, 0, 0, 2, 2, 2]
    assert levels.assign(5, 4).tolist() == [0, 0, 4, 1, 1, 2, 2, 5]
    for level in (1, 6):
        with pytest.raises(UsageError, match=f"level={level} .* from 2 to 5"):
            levels.assign(level, 4)


@pytest.mark.parametrize("level", [2, 4, 5])
def test_apply_level_is_one_edit_that_can_be_undone(
    level: int,
    annotations: AnnotationStore,  # noqa: F811
    clustering: Clustering,  # noqa: F811
    editor: ClusterEditor,  # noqa: F811
):
    editor.set_name(1, "one")
    levels = make_levels()
    entry = apply_level(annotations, clustering, levels, level)
    assert entry.title == f"use {level} clusters instead of 3"
    current = editor.read_current()
    assert current.clusters.tolist() == levels.assign(level, 4).tolist()
    assert current.names == ({0: "one"} if level == 2 else {1: "one"})
    annotations.undo(run=clustering.run)
    assert editor.read_current().clusters.tolist() == FOUND
    assert editor.read_current().names == {1: "one"}


def test_apply_level_keeps_excluded_images_in_the_first_part_and_ignores_the_current_level(
    annotations: AnnotationStore,  # noqa: F811
    clustering: Clustering,  # noqa: F811
    editor: ClusterEditor,  # noqa: F811
):
    annotations.exclude([7])
    levels = make_levels([0, 1, 2, 3, 4, 5, 7])
    assert apply_level(annotations, clustering, levels, 3) is None
    apply_level(annotations, clustering, levels, 4)
    assert editor.read_current().clusters.tolist() == [0, 0, 0, 1, 1, 2, 2, 4]


def test_apply_level_refuses_levels_of_clusters_that_have_changed(
    annotations: AnnotationStore,  # noqa: F811
    clustering: Clustering,  # noqa: F811
    editor: ClusterEditor,  # noqa: F811
):
    editor.move([1], 2)
    with pytest.raises(UsageError, match="have changed"):
        apply_level(annotations, clustering, make_levels(), 2)
    assert editor.read_current().clusters.tolist() == [2, *FOUND[1:]]
