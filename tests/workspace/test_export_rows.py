"""What is exported of each image, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.names import path_to_bytes
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.cluster_names import names_of_run, shown_names
from crlc.workspace.clusterings import ClusterEditor, Clustering
from crlc.workspace.export.rows import NONE, Chunk, RunExport, second_best
from tests.workspace.handmade import change_content, handmade_dataset, remove_image

Q = np.array(
    [[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8], [0.3, 0.3, 0.4]],
    np.float32,
)
PATHS = ["c.png", "b.png", "a.png", "e.png", "d.png"]


def make_run(workspace: Workspace, dataset: ImageDataset, q: np.ndarray = Q, **more: object) -> RunFolder:
    """A run with these probabilities; `z` is the first two of them."""
    run = RunFolder(workspace.root / "runs" / "run-1")
    run.write_description({"dataset": dataset.name, "dataset_uid": dataset.info.uid, "manifest_version": 1, **more})
    arrays = {
        "ids": np.arange(1, len(q) + 1),
        "q": q,
        "z": np.ascontiguousarray(q[:, :2]),
        "cluster": q.argmax(axis=1).astype(np.int32),
        "confidence": q.max(axis=1),
    }
    folder = run.new_result_folder(1)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    run.publish_result(folder, {})
    return run


def add_image(dataset: ImageDataset, path: str) -> None:
    """As an import does that finds a new file."""
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute(
            "INSERT INTO images (path, bytes, stamp, status, content_version, first_version) "
            "VALUES (?, 1, '', 'ok', 2, 2)",
            (path_to_bytes(path),),
        )
        manifest.set_complete(complete=True)


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return handmade_dataset(workspace.root, PATHS)


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    return make_run(workspace, dataset)


def only_chunk(run: RunFolder, dataset: ImageDataset) -> Chunk:
    with Annotations(dataset) as annotations:
        (chunk,) = RunExport.of(run, dataset, annotations.refresh()).chunks()
    return chunk


def test_rows_come_by_path_with_the_cluster_and_the_second_best(run: RunFolder, dataset: ImageDataset):
    chunk = only_chunk(run, dataset)
    assert chunk.paths == ["a.png", "b.png", "c.png", "d.png", "e.png"]
    assert chunk.ids.tolist() == [3, 2, 1, 5, 4]
    assert chunk.cluster.tolist() == [1, 0, 0, 2, 2]
    assert_allclose(chunk.confidence, [0.7, 0.5, 0.6, 0.4, 0.8])
    assert chunk.second.tolist() == [0, 2, 1, 0, 1]
    assert_allclose(chunk.second_probability, [0.2, 0.4, 0.3, 0.3, 0.15])
    assert not chunk.by_person.any()
    assert not chunk.placed.any()


def test_images_that_came_changed_or_went_since(run: RunFolder, dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1, 3], "cat")
    change_content(dataset, 3)
    remove_image(dataset, 4)
    add_image(dataset, "aa.png")
    chunk = only_chunk(run, dataset)
    assert chunk.paths == ["a.png", "aa.png", "b.png", "c.png", "d.png"]
    assert chunk.cluster.tolist() == [NONE, NONE, 0, 0, 2]
    assert np.isnan(chunk.confidence[:2]).all()
    assert chunk.labels == [None, None, None, "cat", None]  # the other label is about another picture
    assert chunk.by_person.tolist() == [False, False, False, True, False]


def test_edits_of_people(run: RunFolder, dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        editor = ClusterEditor(annotations, Clustering.of(run, dataset))
        editor.move([2], 1)
        editor.split(2, [[4], [5]])  # image 5 is in the new cluster 3
        annotations.exclude([4])
    chunk = only_chunk(run, dataset)
    assert chunk.ids.tolist() == [3, 2, 1, 5, 4]
    assert chunk.cluster.tolist() == [1, 1, 0, 3, 2]
    assert chunk.by_person.tolist() == [False, True, False, False, False]
    assert chunk.second.tolist() == [0, 0, 1, 0, 1]  # for the moved one that is what the model chose itself
    assert_allclose(chunk.second_probability, [0.2, 0.5, 0.3, 0.3, 0.15])
    assert chunk.excluded.tolist() == [False, False, False, False, True]


def test_merged_probabilities_add_up():
    second, probability = second_best(Q.copy(), {2: 1}, np.array([0, 0, 1, 1, 1]))
    assert second.tolist() == [1, 1, 0, 0, 0]
    assert_allclose(probability, [0.4, 0.5, 0.2, 0.05, 0.3])


def test_a_part_of_a_split_that_was_merged_elsewhere_is_never_its_own_second():
    # Part 3 of cluster 2 was merged into 0: the image is in 0, the model speaks of 2.
    second, probability = second_best(Q[4:].copy(), {3: 0}, np.array([0]), np.array([2]))
    assert second.tolist() == [1]
    assert_allclose(probability, [0.3])


def test_without_another_cluster_there_is_no_second():
    second, probability = second_best(Q.copy(), {1: 0, 2: 0}, np.zeros(5, np.int32))
    assert second.tolist() == [NONE] * 5
    assert np.isnan(probability).all()


def test_rows_and_probabilities_come_in_parts(run: RunFolder, dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.workspace.export.rows._MOST_ROWS", 2)
    monkeypatch.setattr("crlc.workspace.export.rows._MOST_VALUES", 6)
    monkeypatch.setattr("crlc.data.manifest_columns._IDS_AT_ONCE", 2)
    remove_image(dataset, 4)
    add_image(dataset, "e.png/again")
    with Annotations(dataset) as annotations:
        chunks = list(RunExport.of(run, dataset, annotations.refresh()).chunks())
    assert [chunk.ids.tolist() for chunk in chunks] == [[3, 2], [1, 5], [6]]
    assert [number for chunk in chunks for number in chunk.second.tolist()] == [0, 2, 1, 0, NONE]


def test_names_of_people_win_over_those_of_training(workspace: Workspace, dataset: ImageDataset):
    run = make_run(workspace, dataset, names={"0": "cat", "1": "dog", "2": "odd\n\udcff"})
    assert names_of_run(run.description()) == {0: "cat", 1: "dog", 2: "odd\\x0a\\xff"}
    with Annotations(dataset) as annotations:
        editor = ClusterEditor(annotations, Clustering.of(run, dataset))
        editor.name(1, "wolf")
        assert shown_names(run.description(), editor.current()) == {0: "cat", 1: "wolf", 2: "odd\\x0a\\xff"}
        editor.name(1, None)
        editor.merge([1, 2])
        assert shown_names(run.description(), editor.current()) == {0: "cat", 1: "dog"}
