"""Cluster edits: numbers, names, undo, and edits that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import (
    build_numbered_paths,
    change_content,
    remove_image,
    write_handmade_dataset,
    write_handmade_run,
)

# Clusters of images 1 to 8; of the four clusters of the run, number 3 is empty.
FOUND = [0, 0, 0, 1, 1, 2, 2, 2]


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, build_numbered_paths(9))


@pytest.fixture
def clustering(workspace: Workspace, dataset: ImageDataset) -> Clustering:
    return Clustering.from_run(write_handmade_run(workspace, dataset, FOUND, 4), dataset)


@pytest.fixture
def annotations(dataset: ImageDataset) -> Iterator[AnnotationStore]:
    with AnnotationStore(dataset) as opened:
        yield opened


@pytest.fixture
def editor(annotations: AnnotationStore, clustering: Clustering) -> ClusterEditor:
    return ClusterEditor(annotations, clustering)


def test_clustering_without_edits_equals_the_result(editor: ClusterEditor):
    current = editor.read_current()
    assert current.clusters.tolist() == FOUND
    assert current.count_images() == {0: 3, 1: 2, 2: 3, 3: 0}
    confidence = current.compute_mean_confidence()
    assert confidence[0] == pytest.approx((0.01 + 0.02 + 0.03) / 3)
    assert confidence[1] == pytest.approx(0.045)
    assert confidence[3] is None


def test_merge_keeps_the_smallest_number_and_a_name(editor: ClusterEditor):
    editor.set_name(2, "two")
    editor.set_name(1, "one")
    editor.merge([2, 0, 1])
    current = editor.read_current()
    assert current.clusters.tolist() == [0] * 8
    assert current.numbers == (0, 3)
    assert current.names == {0: "one"}  # cluster 0 had no name: the name of the next number is kept


def test_merge_keeps_the_name_of_the_smallest_number(editor: ClusterEditor):
    editor.set_name(0, "zero")
    editor.set_name(1, "one")
    editor.merge([1, 0])
    assert editor.read_current().names == {0: "zero"}


def test_split_assigns_numbers_after_the_largest(editor: ClusterEditor):
    editor.set_name(0, "zero")
    assert editor.split(0, [[2], [1], [3]]).title == "split cluster 0 into 0, 4 and 5"
    current = editor.read_current()
    assert current.clusters.tolist() == [4, 0, 5, 1, 1, 2, 2, 2]
    assert current.names == {0: "zero"}
    editor.merge([5, 1])
    editor.split(2, [[6, 7], [8]])
    assert editor.read_current().clusters.tolist() == [4, 0, 1, 1, 1, 2, 2, 6]  # number 5 is not reused


def test_move_follows_later_merges(editor: ClusterEditor):
    assert editor.move([1, 4, 6], 1).title == "move 2 images to cluster 1"  # 4 is there already
    editor.merge([1, 0])
    current = editor.read_current()
    assert current.clusters.tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert current.is_moved.tolist() == [True, False, False, False, False, True, False, False]
    editor.move([6], 3)
    assert editor.read_current().clusters.tolist() == [0, 0, 0, 0, 0, 3, 2, 2]


def test_undo_reverts_edits_one_by_one(editor: ClusterEditor, annotations: AnnotationStore):
    editor.merge([0, 1])
    editor.split(0, [[1, 4], [2, 3, 5]])
    editor.move([6], 4)
    editor.set_name(4, "four")
    assert editor.read_current().clusters.tolist() == [0, 4, 4, 0, 4, 4, 2, 2]
    annotations.undo(run="run-1")
    assert editor.read_current().names == {}
    annotations.undo(run="run-1")
    assert editor.read_current().clusters.tolist() == [0, 4, 4, 0, 4, 2, 2, 2]
    annotations.undo(run="run-1")
    assert editor.read_current().clusters.tolist() == [0, 0, 0, 0, 0, 2, 2, 2]
    annotations.undo(run="run-1")
    assert editor.read_current().clusters.tolist() == FOUND
    assert annotations.redo(run="run-1").run == "run-1"
    assert editor.read_current().numbers == (0, 2, 3)


def test_undo_for_a_run_leaves_labels_alone(editor: ClusterEditor, annotations: AnnotationStore):
    editor.set_name(1, "one")
    annotations.label([1], "cat")
    with pytest.raises(CrlcError, match="run-1: label 1 image 'cat'"):
        annotations.undo(run="run-1")
    annotations.undo()
    assert annotations.undo(run="run-1").title == "name cluster 1 'one'"


def test_history_has_the_names_of_clusters(annotations: AnnotationStore, clustering: Clustering):
    editor = ClusterEditor(annotations, clustering, {0: "cats", 2: "dogs"})
    assert editor.set_name(0, "lions").title == "rename 0 cats to 'lions'"
    assert editor.merge([0, 1, 2]).title == "merge 0 cats, cluster 1 and 2 dogs"
    assert annotations.undo().title == "merge 0 cats, cluster 1 and 2 dogs"
    assert editor.split(0, [[2], [1, 3]]).title == "split 0 cats into 0 and 4"
    assert editor.move([1], 2).title == "move 1 image to 2 dogs"
    assert editor.set_name(0, None).title == "remove the name of 0 cats"
    assert [entry.title for entry in annotations.read_history(2)] == [
        "remove the name of 0 cats",
        "move 1 image to 2 dogs",
    ]


def test_editor_records_nothing_when_nothing_changes(editor: ClusterEditor, annotations: AnnotationStore):
    editor.set_name(1, "one")
    assert editor.set_name(1, " one ") is None
    assert editor.set_name(2, None) is None
    assert editor.move([1, 2], 0) is None
    assert len(annotations.read_history()) == 1
    editor.set_name(1, None)
    assert editor.read_current().names == {}


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (lambda e: e.merge([1, 1]), UsageError, "clusters=1, 1"),
        (lambda e: e.merge([0, 1, 0]), UsageError, "clusters=0, 1, 0"),
        (lambda e: e.merge([1]), UsageError, "at least two"),
        (lambda e: e.merge([1, 4]), NotFoundError, "cluster 4 .* highest number is 3"),
        (lambda e: e.merge([1, -1]), NotFoundError, "cluster -1 "),
        (lambda e: e.set_name(7, "x"), NotFoundError, "cluster 7 "),
        (lambda e: e.set_name(1, "a\tb"), UsageError, "control characters"),
        (lambda e: e.set_name(1, "  "), UsageError, "name=.* empty"),
        (lambda e: e.move([1], 9), NotFoundError, "cluster 9 "),
        (lambda e: e.move([1, 9], 2), NotFoundError, "run has no .*9"),
        (lambda e: e.move([], 2), UsageError, "No image was given"),
        (lambda e: e.split(5, [[1], [2]]), NotFoundError, "cluster 5 "),
        (lambda e: e.split(0, [[1, 2, 3]]), UsageError, "3 images cannot be split into 1"),
        (lambda e: e.split(0, [[1], [2], [3], []]), UsageError, "3 images cannot be split into 4"),
        (lambda e: e.split(0, [[1, 2, 3], []]), UsageError, "a part is empty"),
        (lambda e: e.split(0, [[1], [2]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(0, [[1, 2], [2, 3]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(0, [[1, 2], [4]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(3, [[1], [2]]), UsageError, "0 images"),
    ],
)
def test_editor_refuses_invalid_edits(editor: ClusterEditor, annotations: AnnotationStore, edit, error, words):
    with pytest.raises(error, match=words):
        edit(editor)
    assert editor.read_current().clusters.tolist() == FOUND
    assert annotations.read_history() == []


def test_editor_error_names_the_cluster_that_another_was_merged_into(editor: ClusterEditor):
    editor.merge([2, 1])
    with pytest.raises(NotFoundError, match="merged into 1"):
        editor.move([1], 2)


def test_editor_checks_edits_against_those_of_other_windows(
    dataset: ImageDataset, clustering: Clustering, editor: ClusterEditor
):
    with AnnotationStore(dataset) as other_annotations:
        other = ClusterEditor(other_annotations, clustering)
        other.read_current()
        editor.merge([1, 2])
        with pytest.raises(NotFoundError, match="merged into 1"):
            other.set_name(2, "gone")
        other.split(1, [[4, 5], [6, 7, 8]])
        with pytest.raises(UsageError, match="window"):
            editor.split(1, [[4], [5, 6, 7, 8]])
        assert editor.read_current().count_images() == {0: 3, 1: 2, 3: 0, 4: 3}


def test_editor_edits_apply_to_one_result_only(
    workspace: Workspace, dataset: ImageDataset, annotations: AnnotationStore, editor
):
    editor.merge([0, 1])
    other = Clustering.from_run(write_handmade_run(workspace, dataset, FOUND[::-1], 4), dataset)
    state = annotations.refresh()
    assert other.apply_edits(state).clusters.tolist() == FOUND[::-1]
    assert state.find_edited_results("run-1") - {other.result}
    same = Clustering.from_run(
        write_handmade_run(workspace, dataset, FOUND, 4), dataset
    )  # a new file with the same clusters
    assert same.apply_edits(state).clusters.tolist() == [0, 0, 0, 0, 0, 2, 2, 2]


def test_clustering_leaves_out_missing_and_changed_images(
    workspace: Workspace, dataset: ImageDataset, clustering: Clustering, annotations: AnnotationStore
):
    ClusterEditor(annotations, clustering).merge([0, 1])
    remove_image(dataset, 2)
    change_content(dataset, 6)
    current = Clustering.from_run(write_handmade_run(workspace, dataset, FOUND, 4), dataset)
    assert current.ids.tolist() == [1, 3, 4, 5, 7, 8]
    assert current.rows.tolist() == [0, 2, 3, 4, 6, 7]
    editor = ClusterEditor(annotations, current)
    assert editor.read_current().count_images() == {0: 4, 2: 2, 3: 0}
    editor.split(0, [[1, 3], [4, 5]])
    with pytest.raises(NotFoundError, match="2, 6"):
        editor.move([2, 6, 7], 0)
