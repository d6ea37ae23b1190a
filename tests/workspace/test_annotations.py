"""Labels and exclusions of a data set: done, undone, redone, by several windows."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.workspace import Workspace, annotations
from crlc.workspace.annotations import Annotations
from crlc.workspace.curation import Curation
from tests.pictures import picture, save_pictures
from tests.workspace.handmade import change_content, handmade_dataset, numbered, remove_image


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    return handmade_dataset(tmp_path, numbered(9))


def told(curation: Curation) -> tuple[dict[int, str], list[int]]:
    """Labels by id, and what is excluded."""
    labelled = curation.labelled()
    names = [labelled.names[number] for number in labelled.numbers.tolist()]
    return dict(zip(labelled.ids.tolist(), names, strict=True)), curation.excluded().tolist()


def test_labels_and_exclusions(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([3, 1, 3], "cat")
        annotations.label(np.array([1, 2]), "  dog ")
        annotations.exclude([4, 5])
        annotations.include([5])
        annotations.unlabel([3])
        curation = annotations.refresh()
    assert told(curation) == ({1: "dog", 2: "dog"}, [4])
    assert curation.label(1) == "dog"
    assert curation.labels([9, 2, 3]) == [None, "dog", None]
    assert curation.labelled().counts() == {"dog": 2}
    assert curation.is_excluded(np.array([4, 5, 900])).tolist() == [True, False, False]


def test_nothing_is_written_before_the_first_operation(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        assert told(annotations.refresh()) == ({}, [])
        assert annotations.history() == []
        assert annotations.unlabel([1]) is None
        with pytest.raises(CrlcError, match="There is nothing to undo in set"):
            annotations.undo()
        with pytest.raises(NotFoundError):
            annotations.label([10], "x")
    assert not list(dataset.folder.glob("*annotations*"))


def test_undo_and_redo_survive_a_restart(dataset: ImageDataset):
    with Annotations(dataset) as first:
        first.label([1], "cat")
        first.label([1, 2], "dog")
        first.exclude([3])
        assert first.undo().title == "exclude 1 image"
    with Annotations(dataset) as second:
        assert second.undo().title == "label 2 images 'dog'"
        assert told(second.refresh()) == ({1: "cat"}, [])
    with Annotations(dataset) as third:
        assert third.redo().title == "label 2 images 'dog'"
        assert third.redo().title == "exclude 1 image"
        assert told(third.refresh()) == ({1: "dog", 2: "dog"}, [3])
        with pytest.raises(CrlcError, match="nothing to redo"):
            third.redo()


def test_a_new_operation_makes_redo_impossible(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
        annotations.undo()
        annotations.label([2], "dog")
        with pytest.raises(CrlcError, match="nothing to redo"):
            annotations.redo()
        annotations.undo()
        assert told(annotations.refresh()) == ({}, [])


def test_the_history_in_words(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
        annotations.label(range(1, 6), "dog")
        annotations.exclude([2])
        annotations.undo()
        annotations.undo()
        found = [(entry.title, entry.undone, entry.run) for entry in annotations.history()]
        assert [entry.title for entry in annotations.history(1)] == ["label 5 images 'dog'", "label 1 image 'cat'"]
    assert found == [
        ("exclude 1 image", True, None),
        ("label 5 images 'dog'", True, None),
        ("label 1 image 'cat'", False, None),
    ]


def test_what_changes_nothing_is_no_step_to_undo(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1, 2], "cat")
        assert annotations.label([2], "cat") is None
        assert annotations.include([1]) is None
        assert annotations.unlabel([3]) is None
        annotations.exclude([5])
        assert annotations.exclude([5]) is None
        assert len(annotations.history()) == 2


# ---- several windows


def test_two_windows_share_one_history(dataset: ImageDataset):
    with Annotations(dataset) as left, Annotations(dataset) as right:
        left.label([1], "cat")
        assert told(right.refresh()) == ({1: "cat"}, [])
        right.label([2], "dog")
        left.exclude([3])
        assert right.undo().title == "exclude 1 image"  # the latest, though the other window did it
        assert left.undo().title == "label 1 image 'dog'"
        left.label([4], "owl")
        with pytest.raises(CrlcError, match="nothing to redo"):
            right.redo()
        assert told(left.refresh()) == told(right.refresh()) == ({1: "cat", 4: "owl"}, [])


def test_a_state_once_given_does_not_change(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
        before = annotations.refresh()
        assert annotations.refresh() is before
        annotations.label([1], "dog")
        assert before.label(1) == "cat"
        assert annotations.refresh().operation == before.operation + 1


def test_threads_may_share_one_object(dataset: ImageDataset):
    with Annotations(dataset) as annotations:

        def work(number: int) -> None:
            for turn in range(20):
                annotations.label([number], f"{number}-{turn}")
                annotations.refresh()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told(annotations.refresh())[0] == {number: f"{number}-19" for number in range(1, 5)}
        assert len(annotations.history(1000)) == 80


def test_undoing_more_than_is_remembered(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotations, "_REMEMBERED_VALUES", 10)
    states = []
    with Annotations(dataset) as log:
        for number in range(12):
            states.append(told(log.refresh()))
            log.label([number % 9 + 1, (number + 3) % 9 + 1], f"label {number}")
        end = told(log.refresh())
        for expected in reversed(states):
            log.undo()
            assert told(log.refresh()) == expected
        with Annotations(dataset) as other:
            assert told(other.refresh()) == ({}, [])
        for expected in [*states[1:], end]:
            log.redo()
            assert told(log.refresh()) == expected


# ---- contents that change


def test_a_label_of_another_content_is_stale(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1, 2, 3, 4], "cat")
        annotations.exclude([3])
        change_content(dataset, 2)
        remove_image(dataset, 4)
        assert annotations.stale_labels().tolist() == [2]
        assert annotations.usable_labels().ids.tolist() == [1]
        assert annotations.usable_labels().names == ("cat",)
        assert annotations.label([2], "cat") is not None  # looked at again: about the new content
        assert annotations.stale_labels().tolist() == []
        assert annotations.usable_labels().ids.tolist() == [1, 2]
        annotations.undo()
        assert annotations.stale_labels().tolist() == [2]
        with pytest.raises(NotFoundError, match="no readable image with id 4"):
            annotations.label([4], "dog")
        annotations.unlabel([4])  # its label can still be taken away
        assert told(annotations.refresh())[0] == dict.fromkeys((1, 2, 3), "cat")


def test_labels_follow_renamed_files_through_a_real_import(workspace: Workspace, tmp_path: Path):
    files = save_pictures(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with Annotations(dataset) as annotations:
        annotations.label([1, 2], "cat")
        files[0].rename(files[0].with_name("renamed.png"))
        picture(77).save(files[1])
        workspace.import_dataset(str(tmp_path / "set"))
        assert annotations.stale_labels().tolist() == [2]
        assert annotations.usable_labels().ids.tolist() == [1]


# ---- wrong input


@pytest.mark.parametrize(
    ("ids", "name", "error", "words"),
    [
        ([1, 99, -4], "cat", NotFoundError, "set has no readable image with id -4, 99. Nothing was changed"),
        (range(100, 110), "cat", NotFoundError, "id 100, 101, 102, 103, 104 and 5 more"),
        ([], "cat", UsageError, "No image was given"),
        ([1.5], "cat", UsageError, "whole numbers"),
        ([1], "", UsageError, "it is empty"),
        ([1], " \t", UsageError, "it is empty"),
        ([1], "a\x00b", UsageError, "label='a\\\\x00b' is not allowed: it holds control characters"),
        ([1], "two\nlines", UsageError, "control characters"),
        ([1], "turned \u202e round", UsageError, "control characters"),
        ([1], "half \ud83d", UsageError, "control characters"),
        ([1], "x" * 201, UsageError, "it has 201 characters, the most is 200"),
    ],
)
def test_wrong_input_changes_nothing(dataset: ImageDataset, ids, name: str, error, words: str):
    with Annotations(dataset) as annotations:
        annotations.label([1], "before")
        with pytest.raises(error, match=words):
            annotations.label(ids, name)
        assert told(annotations.refresh()) == ({1: "before"}, [])
        assert len(annotations.history()) == 1


@pytest.mark.parametrize("name", ["x" * 200, "größe", "👩‍👩‍👧", "=1+1", "'quoted'", "a\u200cb"])
def test_names_that_are_allowed(dataset: ImageDataset, name: str):
    with Annotations(dataset) as annotations:
        annotations.label([1], name)
    with Annotations(dataset) as again:
        assert again.refresh().label(1) == name


def test_one_spelling_of_each_character(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        annotations.label([1], "caf\u00e9")
        annotations.label([2], "cafe\u0301")
        assert annotations.refresh().labelled().counts() == {"café": 2}


def test_a_removed_data_set_is_not_written_to(dataset: ImageDataset, tmp_path: Path):
    fresh = Annotations(dataset)
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
        shutil.rmtree(dataset.folder)
        with pytest.raises(NotFoundError, match="removed since they were opened"):
            annotations.refresh()
        handmade_dataset(tmp_path / "elsewhere", numbered(9), name="other").folder.rename(dataset.folder)
        for window in (annotations, fresh):
            with pytest.raises(NotFoundError, match="removed since they were opened"):
                window.label([2], "dog")
    assert not (dataset.folder / "annotations.sqlite").exists()
