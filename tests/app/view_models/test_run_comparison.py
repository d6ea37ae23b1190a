"""Comparison of two runs: reassigned images, and labels that match their cluster."""

from __future__ import annotations

import numpy as np

from app.view_models.run_comparison import (
    Reassignment,
    compare_with_parent,
    find_comparison_pair,
    group_reassigned_images,
)
from app.view_models.run_table import RunEntry
from app.view_models.view_cache import open_run_view
from crlc.analysis.comparison import compare_clusterings
from crlc.workspace import Workspace
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.tiny_run import CONFIDENCES


def test_group_reassigned_images_by_both_clusters():
    ids = np.arange(1, 9)
    found = compare_clusterings(ids, np.array([0, 0, 0, 0, 1, 1, 1, 1]), ids, np.array([1, 1, 1, 0, 0, 0, 0, 1]))
    # Old 0 matches new 1 and old 1 matches new 0, so the images whose number did not change are the reassigned ones.
    groups = group_reassigned_images(found)
    assert [(group.before, group.after, group.ids.tolist()) for group in groups] == [(0, 0, [4]), (1, 1, [8])]
    same = compare_clusterings(ids, np.zeros(8, np.int64), ids, np.zeros(8, np.int64))
    assert group_reassigned_images(same) == ()


def test_reassignment_sample_is_evenly_spaced():
    group = Reassignment(0, 1, np.arange(100, 200))
    assert group.sample(3).tolist() == [100, 149, 199]
    assert group.sample(500).tolist() == list(range(100, 200))


def test_find_comparison_pair_returns_parent_and_child():
    entries = [
        RunEntry(run, "set", "u", run, "", "", {}, parent)
        for run, parent in (("one", None), ("two", "one"), ("three", "one"), ("lost", "gone"))
    ]
    assert find_comparison_pair(entries, "one") == ("one", "three")
    assert find_comparison_pair(entries, "two") == ("one", "two")
    assert find_comparison_pair(entries, "lost") is None
    assert find_comparison_pair(entries[:1], "one") is None


def test_compare_with_parent_groups_reassigned_images(workspace: Workspace, view):
    after = [0, 0, 0, 1, 1, 1, 1, 1, 2, 1, 1, 2]
    child = write_handmade_result(
        workspace,
        view.dataset,
        z=place_on_circle(list(range(12))),
        clusters=after,
        confidences=CONFIDENCES,
        count=3,
        name="child",
    )
    child.write_metadata({**child.read_metadata(), "names": {"0": "cat", "1": "dog"}, "parent": "tiny-run"})
    found = compare_with_parent(view, open_run_view(workspace, child))
    assert [(group.before, group.after, group.ids.tolist()) for group in found.reassignments] == [
        (2, 1, [10, 11]),
        (0, 1, [4]),
    ]
