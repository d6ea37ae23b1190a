"""Clusters as people edit them: numbers, names, and edits that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor, Clustering
from tests.workspace.handmade import change_content, handmade_dataset, handmade_run, numbered, remove_image

# Images 1 to 8; of the four clusters that the run was to find, number 3 is empty.
FOUND = [0, 0, 0, 1, 1, 2, 2, 2]


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return handmade_dataset(workspace.root, numbered(9))


@pytest.fixture
def clustering(workspace: Workspace, dataset: ImageDataset) -> Clustering:
    return Clustering.of(handmade_run(workspace, dataset, FOUND, 4), dataset)


@pytest.fixture
def annotations(dataset: ImageDataset) -> Iterator[Annotations]:
    with Annotations(dataset) as opened:
        yield opened


@pytest.fixture
def editor(annotations: Annotations, clustering: Clustering) -> ClusterEditor:
    return ClusterEditor(annotations, clustering)


def test_clusters_as_the_run_found_them(editor: ClusterEditor):
    now = editor.current()
    assert now.clusters.tolist() == FOUND
    assert now.sizes() == {0: 3, 1: 2, 2: 3, 3: 0}
    confidence = now.mean_confidence()
    assert confidence[0] == pytest.approx((0.01 + 0.02 + 0.03) / 3)
    assert confidence[1] == pytest.approx(0.045)
    assert confidence[3] is None


def test_a_merge_keeps_the_smallest_number_and_a_name(editor: ClusterEditor):
    editor.name(2, "two")
    editor.name(1, "one")
    editor.merge([2, 0, 1])
    now = editor.current()
    assert now.clusters.tolist() == [0] * 8
    assert now.numbers == (0, 3)
    assert now.names == {0: "one"}  # 0 had none: that of the next number


def test_the_smallest_number_keeps_its_own_name(editor: ClusterEditor):
    editor.name(0, "zero")
    editor.name(1, "one")
    editor.merge([1, 0])
    assert editor.current().names == {0: "zero"}


def test_a_split_gives_new_numbers_after_the_largest(editor: ClusterEditor):
    editor.name(0, "zero")
    assert editor.split(0, [[2], [1], [3]]).title == "split cluster 0 into 0, 4 and 5"
    now = editor.current()
    assert now.clusters.tolist() == [4, 0, 5, 1, 1, 2, 2, 2]
    assert now.names == {0: "zero"}
    editor.merge([5, 1])
    editor.split(2, [[6, 7], [8]])
    assert editor.current().clusters.tolist() == [4, 0, 1, 1, 1, 2, 2, 6]  # 5 is not given again


def test_moved_images_follow_their_new_cluster(editor: ClusterEditor):
    assert editor.move([1, 4, 6], 1).title == "move 2 images to cluster 1"  # 4 is there already
    editor.merge([1, 0])
    now = editor.current()
    assert now.clusters.tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert now.by_hand.tolist() == [True, False, False, False, False, True, False, False]
    editor.move([6], 3)
    assert editor.current().clusters.tolist() == [0, 0, 0, 0, 0, 3, 2, 2]


def test_edits_are_undone_one_by_one(editor: ClusterEditor, annotations: Annotations):
    editor.merge([0, 1])
    editor.split(0, [[1, 4], [2, 3, 5]])
    editor.move([6], 4)
    editor.name(4, "four")
    assert editor.current().clusters.tolist() == [0, 4, 4, 0, 4, 4, 2, 2]
    annotations.undo(run="run-1")
    assert editor.current().names == {}
    annotations.undo(run="run-1")
    assert editor.current().clusters.tolist() == [0, 4, 4, 0, 4, 2, 2, 2]
    annotations.undo(run="run-1")
    assert editor.current().clusters.tolist() == [0, 0, 0, 0, 0, 2, 2, 2]
    annotations.undo(run="run-1")
    assert editor.current().clusters.tolist() == FOUND
    assert annotations.redo(run="run-1").run == "run-1"
    assert editor.current().numbers == (0, 2, 3)


def test_undo_for_a_run_leaves_labels_alone(editor: ClusterEditor, annotations: Annotations):
    editor.name(1, "one")
    annotations.label([1], "cat")
    with pytest.raises(CrlcError, match="not about the clusters of run-1: label 1 image 'cat'. Undo it first"):
        annotations.undo(run="run-1")
    annotations.undo()
    assert annotations.undo(run="run-1").title == "name cluster 1 'one'"


def test_what_changes_nothing_is_no_step(editor: ClusterEditor, annotations: Annotations):
    editor.name(1, "one")
    assert editor.name(1, " one ") is None
    assert editor.name(2, None) is None
    assert editor.move([1, 2], 0) is None
    assert len(annotations.history()) == 1
    editor.name(1, None)
    assert editor.current().names == {}


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (lambda e: e.merge([1, 1]), UsageError, "cannot be merged with itself: 1, 1"),
        (lambda e: e.merge([0, 1, 0]), UsageError, "cannot be merged with itself"),
        (lambda e: e.merge([1]), UsageError, "at least two clusters"),
        (lambda e: e.merge([1, 4]), NotFoundError, "no cluster 4. The highest number is 3"),
        (lambda e: e.merge([1, -1]), NotFoundError, "no cluster -1"),
        (lambda e: e.name(7, "x"), NotFoundError, "no cluster 7"),
        (lambda e: e.name(1, "a\tb"), UsageError, "control characters"),
        (lambda e: e.name(1, "  "), UsageError, "it is empty"),
        (lambda e: e.move([1], 9), NotFoundError, "no cluster 9"),
        (lambda e: e.move([1, 9], 2), NotFoundError, "run-1 has not assigned the images 9. Nothing was changed"),
        (lambda e: e.move([], 2), UsageError, "No image was given"),
        (lambda e: e.split(5, [[1], [2]]), NotFoundError, "no cluster 5"),
        (lambda e: e.split(0, [[1, 2, 3]]), UsageError, "with 3 images cannot be split into 1"),
        (lambda e: e.split(0, [[1], [2], [3], []]), UsageError, "cannot be split into 4"),
        (lambda e: e.split(0, [[1, 2, 3], []]), UsageError, "would be empty"),
        (lambda e: e.split(0, [[1], [2]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(0, [[1, 2], [2, 3]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(0, [[1, 2], [4]]), UsageError, "each image of cluster 0 once"),
        (lambda e: e.split(3, [[1], [2]]), UsageError, "with 0 images cannot be split"),
    ],
)
def test_edits_that_do_not_fit_change_nothing(editor: ClusterEditor, annotations: Annotations, edit, error, words):
    with pytest.raises(error, match=words):
        edit(editor)
    assert editor.current().clusters.tolist() == FOUND
    assert annotations.history() == []


def test_a_cluster_that_was_merged_away_says_where_it_went(editor: ClusterEditor):
    editor.merge([2, 1])
    with pytest.raises(NotFoundError, match="no cluster 2 any more: it was merged into 1"):
        editor.move([1], 2)


def test_edits_of_two_windows_are_checked_against_each_other(
    dataset: ImageDataset, clustering: Clustering, editor: ClusterEditor
):
    with Annotations(dataset) as other_annotations:
        other = ClusterEditor(other_annotations, clustering)
        other.current()
        editor.merge([1, 2])
        with pytest.raises(NotFoundError, match="merged into 1"):
            other.name(2, "gone")
        other.split(1, [[4, 5], [6, 7, 8]])
        with pytest.raises(UsageError, match="It may have changed in another window"):
            editor.split(1, [[4], [5, 6, 7, 8]])
        assert editor.current().sizes() == {0: 3, 1: 2, 3: 0, 4: 3}


def test_edits_belong_to_one_result(workspace: Workspace, dataset: ImageDataset, annotations: Annotations, editor):
    editor.merge([0, 1])
    other = Clustering.of(handmade_run(workspace, dataset, FOUND[::-1], 4), dataset)
    curation = annotations.refresh()
    assert other.edited(curation).clusters.tolist() == FOUND[::-1]
    assert curation.edited_results("run-1") - {other.result}
    same = Clustering.of(handmade_run(workspace, dataset, FOUND, 4), dataset)  # written again, but the same
    assert same.edited(curation).clusters.tolist() == [0, 0, 0, 0, 0, 2, 2, 2]


def test_images_that_are_gone_or_others_now_are_left_out(
    workspace: Workspace, dataset: ImageDataset, clustering: Clustering, annotations: Annotations
):
    ClusterEditor(annotations, clustering).merge([0, 1])
    remove_image(dataset, 2)
    change_content(dataset, 6)
    now = Clustering.of(handmade_run(workspace, dataset, FOUND, 4), dataset)
    assert now.ids.tolist() == [1, 3, 4, 5, 7, 8]
    assert now.rows.tolist() == [0, 2, 3, 4, 6, 7]
    editor = ClusterEditor(annotations, now)
    assert editor.current().sizes() == {0: 4, 2: 2, 3: 0}
    editor.split(0, [[1, 3], [4, 5]])
    with pytest.raises(NotFoundError, match="has not assigned the images 2, 6"):
        editor.move([2, 6, 7], 0)
