"""Rows of an export, compared with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.clusters.names import get_display_names, get_trained_names
from crlc.clusters.probabilities import MISSING
from crlc.data.dataset import ImageDataset
from crlc.export.rows import RowChunk, RunExport
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from tests.fixtures.export_run import PATHS, add_image, make_run
from tests.fixtures.handmade_dataset import change_content, remove_image, write_handmade_dataset


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, PATHS)


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    return make_run(workspace, dataset)


def read_only_chunk(run: RunFolder, dataset: ImageDataset) -> RowChunk:
    with AnnotationStore(dataset) as annotations:
        (chunk,) = RunExport.from_run(run, dataset, annotations.refresh()).iterate_chunks()
    return chunk


def test_rows_are_ordered_by_path_with_cluster_and_second_best(run: RunFolder, dataset: ImageDataset):
    chunk = read_only_chunk(run, dataset)
    assert chunk.paths == ["a.png", "b.png", "c.png", "d.png", "e.png"]
    assert chunk.ids.tolist() == [3, 2, 1, 5, 4]
    assert chunk.cluster.tolist() == [1, 0, 0, 2, 2]
    assert_allclose(chunk.confidence, [0.7, 0.5, 0.6, 0.4, 0.8])
    assert chunk.second_cluster.tolist() == [0, 2, 1, 0, 1]
    assert_allclose(chunk.second_probability, [0.2, 0.4, 0.3, 0.3, 0.15])
    assert not chunk.is_manual.any()
    assert not chunk.is_on_map.any()


def test_rows_have_no_cluster_for_images_added_or_changed_after_the_run(run: RunFolder, dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 3], "cat")
    change_content(dataset, 3)
    remove_image(dataset, 4)
    add_image(dataset, "aa.png")
    chunk = read_only_chunk(run, dataset)
    assert chunk.paths == ["a.png", "aa.png", "b.png", "c.png", "d.png"]
    assert chunk.cluster.tolist() == [MISSING, MISSING, 0, 0, 2]
    assert np.isnan(chunk.confidence[:2]).all()
    assert chunk.labels == [None, None, None, "cat", None]  # the label of image 3 belongs to earlier content
    assert chunk.is_manual.tolist() == [False, False, False, True, False]


def test_rows_follow_manual_edits(run: RunFolder, dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        editor = ClusterEditor(annotations, Clustering.from_run(run, dataset))
        editor.move([2], 1)
        editor.split(2, [[4], [5]])  # image 5 is in the new cluster 3
        annotations.exclude([4])
    chunk = read_only_chunk(run, dataset)
    assert chunk.ids.tolist() == [3, 2, 1, 5, 4]
    assert chunk.cluster.tolist() == [1, 1, 0, 3, 2]
    assert chunk.is_manual.tolist() == [False, True, False, False, False]
    assert chunk.second_cluster.tolist() == [0, 0, 1, 0, 1]  # for the moved image: the predicted cluster
    assert_allclose(chunk.second_probability, [0.2, 0.5, 0.3, 0.3, 0.15])
    assert chunk.is_excluded.tolist() == [False, False, False, False, True]


def test_rows_are_read_in_chunks(run: RunFolder, dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.export.rows._CHUNK_ROWS", 2)
    monkeypatch.setattr("crlc.export.rows._PROBABILITIES_IN_MEMORY", 6)
    monkeypatch.setattr("crlc.data.manifest_columns._BLOCK_IDS", 2)
    remove_image(dataset, 4)
    add_image(dataset, "e.png/again")
    with AnnotationStore(dataset) as annotations:
        chunks = list(RunExport.from_run(run, dataset, annotations.refresh()).iterate_chunks())
    assert [chunk.ids.tolist() for chunk in chunks] == [[3, 2], [1, 5], [6]]
    assert [number for chunk in chunks for number in chunk.second_cluster.tolist()] == [0, 2, 1, 0, MISSING]


def test_display_names_prefer_manual_names_to_names_of_training(workspace: Workspace, dataset: ImageDataset):
    run = make_run(workspace, dataset, names={"0": "cat", "1": "dog", "2": "odd\n\udcff"})
    assert get_trained_names(run.read_metadata()) == {0: "cat", 1: "dog", 2: "odd\\x0a\\xff"}
    with AnnotationStore(dataset) as annotations:
        editor = ClusterEditor(annotations, Clustering.from_run(run, dataset))
        editor.set_name(1, "wolf")
        assert get_display_names(run.read_metadata(), editor.read_current()) == {
            0: "cat",
            1: "wolf",
            2: "odd\\x0a\\xff",
        }
        editor.set_name(1, None)
        editor.merge([1, 2])
        assert get_display_names(run.read_metadata(), editor.read_current()) == {0: "cat", 1: "dog"}
