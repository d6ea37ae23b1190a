"""Queue of images to label: suggestions, selections and clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.view_models.label_queue import (
    LabelQueue,
    can_reuse_view,
    merge_names,
    queue_cluster,
    queue_selection,
    refill_queue,
    suggest_images,
)
from app.view_models.view_cache import open_dataset_view, open_run_view
from crlc.analysis.label_suggestions import REPRESENTATIVE, UNLIKE_LABELLED
from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset


def test_suggested_images_cover_the_clusters_without_decided_ones(workspace: Workspace, view):
    with AnnotationStore(view.dataset) as annotations:
        queue = suggest_images(view, annotations.refresh(), (), 3)
        assert sorted(CLUSTERS[image - 1] for image in queue.ids) == [0, 1, 2]
        assert set(queue.reasons.values()) == {REPRESENTATIVE}
        annotations.label([1, 2, 3, 4], "a")
        annotations.exclude([5])
        now = annotations.refresh()
        queue = suggest_images(view, now, {6}, 99)
        assert sorted(queue.ids) == [7, 8, 9, 10, 11, 12]
        short = LabelQueue([7, 9])
        assert refill_queue(short, 7, view, now, {12})
        assert sorted(short.ids) == [6, 7, 8, 9, 10, 11]
        annotations.label(range(6, 13), "b")
        assert suggest_images(view, annotations.refresh(), (), 5).ids == []
        # A view stays valid after exclusions, but not after a cluster was named.
        newer = open_run_view(workspace, view.analysis.run)
        assert can_reuse_view(view, newer)
        ClusterEditor(annotations, view.analysis.clustering).set_name(0, "x")
        assert not can_reuse_view(view, open_run_view(workspace, view.analysis.run))
        assert not can_reuse_view(None, newer)


def test_queues_start_with_the_least_confident_images(view):
    assert queue_cluster(view, 1).ids == [8, 7, 6, 5]  # 0.65, 0.75, 0.85, 0.95
    assert queue_selection(view, np.array([9, 1, 4, 99]), is_ordered=False).ids == [4, 1, 9]
    assert queue_selection(view, np.array([9, 1, 4]), is_ordered=True).ids == [9, 1, 4]
    long = LabelQueue(list(range(100)))
    assert long.list_images_around(50) == list(range(42, 78))
    assert long.list_images_around(None) == list(range(28))


def test_merge_names_keeps_the_positions_of_known_names():
    assert merge_names([], {3: "c", 0: "a"}, {"b": 1, "a": 2}) == ["a", "c", "b"]
    assert merge_names(["b", "a"], {0: "new", 3: "a"}, {"z": 1}) == ["b", "a", "new", "z"]


def test_suggested_images_before_training_are_near_the_centres(workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    explore_dataset(
        workspace,
        dataset,
        ExplorationSettings(3, MapSettings("pca"), network=FROZEN_HEADS.replace(image_size=48)),
    )
    view = open_dataset_view(workspace, workspace.open_dataset("set"))
    with AnnotationStore(dataset) as annotations:
        queue = suggest_images(view, annotations.refresh(), (), 3)
        assert set(suggest_images(view, annotations.refresh(), queue.ids, 3).reasons.values()) == {UNLIKE_LABELLED}
    rows = view.find_rows(np.sort(queue.ids))
    assert sorted(view.clusters[rows].tolist()) == [0, 1, 2]
    for found in rows:
        members = np.flatnonzero(view.clusters == view.clusters[found])
        assert view.exploration.distance[found] == view.exploration.distance[members].min()
