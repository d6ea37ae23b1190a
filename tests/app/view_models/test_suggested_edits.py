"""Suggested merges and splits: reasons in words, images of both sides, and dismissal."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.view_models.cluster_view import RunView
from app.view_models.suggested_edits import dismiss, list_suggestions, restore_dismissed
from app.view_models.view_cache import open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.workspace import Workspace
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.images import save_images

MIXED = [(index % 2, 1.0 * index) for index in range(40)]
"""Clusters 0 and 1, whose images alternate on the circle, from 0 to 39 degrees."""

DOUBLE = [(2, 180 + 0.4 * index) for index in range(30)] + [(2, 220 + 0.4 * index) for index in range(24)]
"""Cluster 2: 30 images around 186 degrees, 24 around 225."""


@pytest.fixture
def view(workspace: Workspace, tmp_path: Path) -> RunView:
    images = MIXED + DOUBLE
    save_images(tmp_path / "set", len(images), width=8, height=8)
    dataset = workspace.import_dataset(str(tmp_path / "set"))[0]
    run = write_handmade_result(
        workspace,
        dataset,
        z=place_on_circle([angle for _, angle in images]),
        clusters=[cluster for cluster, _ in images],
        confidences=[0.9] * len(images),
        count=3,
    )
    return open_run_view(workspace, run)


def test_suggestions_have_reasons_and_images_of_both_sides(view: RunView):
    (merge, split), dismissed = list_suggestions(view, 6)
    assert (merge.clusters, merge.sizes, split.clusters, split.sizes) == ((0, 1), (20, 20), (2,), (54,))
    assert dismissed == 0
    # The images alternate: half of the nearest images are in the other cluster, as in one cluster cut at random.
    assert "about 50%" in merge.reason
    assert [set(view.clusters[rows].tolist()) for rows in merge.sides] == [{0}, {1}]
    assert "30 and 24" in split.reason
    assert "100%" in split.reason  # no image has a neighbour in the other group
    assert (view.ids[split.sides[0]] - 1 < 70).all()  # the larger group is first
    assert (view.ids[split.sides[1]] - 1 >= 70).all()


def test_reason_of_a_merge_is_that_of_the_smaller_cluster(view: RunView, workspace: Workspace):
    with AnnotationStore(view.dataset) as annotations:  # of the 20 images of cluster 1, only one stays
        ClusterEditor(annotations, view.analysis.clustering).move(range(4, 41, 2), 0)
    uneven = open_run_view(workspace, view.analysis.run)
    (merge,) = [one for one in list_suggestions(uneven, 6)[0] if one.clusters == (0, 1)]
    assert merge.sizes == (39, 1)
    # All images near the single one are in cluster 0, as they would be in one group: 39 of 40.
    assert "those of cluster 1, 100% are in cluster 0" in merge.reason
    assert "about 98%" in merge.reason


def test_suggestion_of_clusters_with_the_same_name_says_so(view: RunView, workspace: Workspace):
    with AnnotationStore(view.dataset) as annotations:
        editor = ClusterEditor(annotations, view.analysis.clustering)
        editor.set_name(0, "cat")
        editor.set_name(1, "cat")
    named = open_run_view(workspace, view.analysis.run)
    assert "same name" in list_suggestions(named, 6)[0][0].reason


def test_dismissed_suggestion_stays_away_until_its_clusters_change(view: RunView, workspace: Workspace):
    merge, split = list_suggestions(view, 6)[0]
    dismiss(view, merge)
    assert list_suggestions(view, 6)[1] == 1
    dismiss(view, split)
    assert list_suggestions(view, 6) == ([], 2)
    with AnnotationStore(view.dataset) as annotations:  # a third of the images of cluster 0 move to cluster 1
        ClusterEditor(annotations, view.analysis.clustering).move([1, 3, 5, 7, 9, 11, 13], 1)
    changed = open_run_view(workspace, view.analysis.run)
    assert [one.clusters for one in list_suggestions(changed, 6)[0]] == [(0, 1)]
    restore_dismissed(changed)
    assert list_suggestions(changed, 6)[1] == 0
