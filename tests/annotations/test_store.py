"""Labels and exclusions of a dataset: applied, undone and redone, by several stores at once."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from crlc.annotations import store as store_module
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, change_content, remove_image, write_handmade_dataset
from tests.fixtures.images import make_image, save_images


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    return write_handmade_dataset(tmp_path, build_numbered_paths(9))


def describe(state: AnnotationState) -> tuple[dict[int, str], list[int]]:
    """Return the labels by image id, and the excluded ids."""
    labelled = state.to_label_set()
    names = [labelled.names[number] for number in labelled.codes.tolist()]
    return dict(zip(labelled.ids.tolist(), names, strict=True)), state.get_excluded_ids().tolist()


def test_store_labels_and_excludes_images(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([3, 1, 3], "cat")
        annotations.label(np.array([1, 2]), "  dog ")
        annotations.exclude([4, 5])
        annotations.include([5])
        annotations.unlabel([3])
        state = annotations.refresh()
    assert describe(state) == ({1: "dog", 2: "dog"}, [4])
    assert state.get_label(1) == "dog"
    assert state.get_labels([9, 2, 3]) == [None, "dog", None]
    assert state.to_label_set().count_by_name() == {"dog": 2}
    assert state.is_excluded(np.array([4, 5, 900])).tolist() == [True, False, False]


def test_store_writes_nothing_before_the_first_operation(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        assert describe(annotations.refresh()) == ({}, [])
        assert annotations.read_history() == []
        assert annotations.unlabel([1]) is None
        with pytest.raises(CrlcError, match="undo in set"):
            annotations.undo()
        with pytest.raises(NotFoundError, match="no readable image with id 10"):
            annotations.label([10], "x")
    assert not list(dataset.folder.glob("*annotations*"))


def test_undo_and_redo_survive_a_restart(dataset: ImageDataset):
    with AnnotationStore(dataset) as first:
        first.label([1], "cat")
        first.label([1, 2], "dog")
        first.exclude([3])
        assert first.undo().title == "exclude 1 image"
    with AnnotationStore(dataset) as second:
        assert second.undo().title == "label 2 images 'dog'"
        assert describe(second.refresh()) == ({1: "cat"}, [])
    with AnnotationStore(dataset) as third:
        assert third.redo().title == "label 2 images 'dog'"
        assert third.redo().title == "exclude 1 image"
        assert describe(third.refresh()) == ({1: "dog", 2: "dog"}, [3])
        with pytest.raises(CrlcError, match="nothing to redo in set"):
            third.redo()


def test_redo_is_impossible_after_a_new_operation(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
        annotations.undo()
        annotations.label([2], "dog")
        with pytest.raises(CrlcError, match="nothing to redo in set"):
            annotations.redo()
        annotations.undo()
        assert describe(annotations.refresh()) == ({}, [])


def test_read_history_returns_titles_newest_first(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
        annotations.label(range(1, 6), "dog")
        annotations.exclude([2])
        annotations.undo()
        annotations.undo()
        found = [(entry.title, entry.undone, entry.run) for entry in annotations.read_history()]
        assert [entry.title for entry in annotations.read_history(1)] == ["label 5 images 'dog'", "label 1 image 'cat'"]
    assert found == [
        ("exclude 1 image", True, None),
        ("label 5 images 'dog'", True, None),
        ("label 1 image 'cat'", False, None),
    ]


def test_store_records_nothing_when_nothing_changes(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
        assert annotations.label([2], "cat") is None
        assert annotations.include([1]) is None
        assert annotations.unlabel([3]) is None
        annotations.exclude([5])
        assert annotations.exclude([5]) is None
        assert len(annotations.read_history()) == 2


# ---- several stores


def test_two_stores_share_one_history(dataset: ImageDataset):
    with AnnotationStore(dataset) as left, AnnotationStore(dataset) as right:
        left.label([1], "cat")
        assert describe(right.refresh()) == ({1: "cat"}, [])
        right.label([2], "dog")
        left.exclude([3])
        assert right.undo().title == "exclude 1 image"  # the latest operation, although the other store recorded it
        assert left.undo().title == "label 1 image 'dog'"
        left.label([4], "owl")
        with pytest.raises(CrlcError, match="nothing to redo in set"):
            right.redo()
        assert describe(left.refresh()) == describe(right.refresh()) == ({1: "cat", 4: "owl"}, [])


def test_refresh_returns_states_that_do_not_change(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
        before = annotations.refresh()
        assert annotations.refresh() is before
        annotations.label([1], "dog")
        assert before.get_label(1) == "cat"
        assert annotations.refresh().last_row_id == before.last_row_id + 1


def test_store_is_shared_by_threads(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:

        def work(number: int) -> None:
            for turn in range(20):
                annotations.label([number], f"{number}-{turn}")
                annotations.refresh()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert describe(annotations.refresh())[0] == {number: f"{number}-19" for number in range(1, 5)}
        assert len(annotations.read_history(1000)) == 80


def test_undo_beyond_the_values_in_memory_replays_the_log(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "_UNDO_VALUES", 10)
    states = []
    with AnnotationStore(dataset) as annotations:
        for number in range(12):
            states.append(describe(annotations.refresh()))
            annotations.label([number % 9 + 1, (number + 3) % 9 + 1], f"label {number}")
        end = describe(annotations.refresh())
        for expected in reversed(states):
            annotations.undo()
            assert describe(annotations.refresh()) == expected
        with AnnotationStore(dataset) as other:
            assert describe(other.refresh()) == ({}, [])
        for expected in [*states[1:], end]:
            annotations.redo()
            assert describe(annotations.refresh()) == expected


# ---- changed content


def test_find_stale_labels_after_a_change_of_content(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2, 3, 4], "cat")
        annotations.exclude([3])
        change_content(dataset, 2)
        remove_image(dataset, 4)
        assert annotations.find_stale_labels().tolist() == [2]
        assert annotations.load_usable_labels().ids.tolist() == [1]
        assert annotations.load_usable_labels().names == ("cat",)
        assert annotations.label([2], "cat") is not None  # labels the new content
        assert annotations.find_stale_labels().tolist() == []
        assert annotations.load_usable_labels().ids.tolist() == [1, 2]
        annotations.undo()
        assert annotations.find_stale_labels().tolist() == [2]
        with pytest.raises(NotFoundError, match="id 4"):
            annotations.label([4], "dog")
        annotations.unlabel([4])  # the label of a removed image can still be removed
        assert describe(annotations.refresh())[0] == dict.fromkeys((1, 2, 3), "cat")


def test_load_usable_labels_keeps_those_of_renamed_files(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
        files[0].rename(files[0].with_name("renamed.png"))
        make_image(77).save(files[1])
        workspace.import_dataset(str(tmp_path / "set"))
        assert annotations.find_stale_labels().tolist() == [2]
        assert annotations.load_usable_labels().ids.tolist() == [1]


# ---- wrong input


@pytest.mark.parametrize(
    ("ids", "name", "error", "words"),
    [
        ([1, 99, -4], "cat", NotFoundError, "set .*-4, 99"),
        (range(100, 110), "cat", NotFoundError, "100, 101, 102, 103, 104 and 5 more"),
        ([], "cat", UsageError, "No image was given"),
        ([1.5], "cat", UsageError, "whole numbers"),
        ([1], "", UsageError, "label='' .* empty"),
        ([1], " \t", UsageError, "label=.* empty"),
        ([1], "a\x00b", UsageError, "label='a\\\\x00b'"),
        ([1], "two\nlines", UsageError, "control characters"),
        ([1], "turned \u202e round", UsageError, "control characters"),
        ([1], "half \ud83d", UsageError, "control characters"),
        ([1], "x" * 201, UsageError, "201 .*200"),
    ],
)
def test_store_refuses_wrong_input(dataset: ImageDataset, ids, name: str, error, words: str):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "before")
        with pytest.raises(error, match=words):
            annotations.label(ids, name)
        assert describe(annotations.refresh()) == ({1: "before"}, [])
        assert len(annotations.read_history()) == 1


@pytest.mark.parametrize("name", ["x" * 200, "größe", "👩‍👩‍👧", "=1+1", "'quoted'", "a\u200cb"])
def test_label_accepts_long_unicode_and_formula_names(dataset: ImageDataset, name: str):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], name)
    with AnnotationStore(dataset) as again:
        assert again.refresh().get_label(1) == name


def test_label_normalizes_unicode(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "caf\u00e9")
        annotations.label([2], "cafe\u0301")
        assert annotations.refresh().to_label_set().count_by_name() == {"café": 2}


def test_store_of_a_removed_dataset_refuses_to_write(dataset: ImageDataset, tmp_path: Path):
    fresh = AnnotationStore(dataset)
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
        shutil.rmtree(dataset.folder)
        with pytest.raises(NotFoundError, match="'set'"):
            annotations.refresh()
        write_handmade_dataset(tmp_path / "elsewhere", build_numbered_paths(9), name="other").folder.rename(
            dataset.folder
        )
        for window in (annotations, fresh):
            with pytest.raises(NotFoundError, match="'set'"):
                window.label([2], "dog")
    assert not (dataset.folder / "annotations.sqlite").exists()
