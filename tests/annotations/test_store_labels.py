"""Renaming and removing a label of all images, and undo of one particular operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.annotations.store import AnnotationStore, NotLatestError
from crlc.errors import UsageError
from tests.fixtures.handmade_dataset import build_numbered_paths, change_content, remove_image, write_handmade_dataset


def test_rename_label_changes_all_images_in_one_step(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(6))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2, 3], "cat")
        annotations.label([4], "dog")
        change_content(dataset, 2)  # its label belongs to earlier content
        remove_image(dataset, 3)
        entry = annotations.rename_label("cat", "  dog ")
        assert entry.title == "rename the label 'cat' of 3 images to 'dog'"
        assert annotations.refresh().get_labels([1, 2, 3, 4]) == ["dog"] * 4
        assert annotations.find_stale_labels().tolist() == [2]
        assert annotations.load_usable_labels().ids.tolist() == [1, 4]
        annotations.undo()
        assert annotations.refresh().get_labels([1, 2, 3, 4]) == ["cat", "cat", "cat", "dog"]
        assert annotations.rename_label("cat", "cat") is None
        assert annotations.rename_label("bird", "x") is None
        with pytest.raises(UsageError, match="label="):
            annotations.rename_label("cat", "  ")


def test_remove_label_changes_all_images(tmp_path: Path):
    with AnnotationStore(write_handmade_dataset(tmp_path, build_numbered_paths(4))) as annotations:
        annotations.label([1, 2], "cat")
        annotations.label([3], "dog")
        assert annotations.remove_label("cat").title == "remove the label 'cat' of 2 images"
        assert annotations.refresh().to_label_set().count_by_name() == {"dog": 1}
        assert annotations.remove_label("cat") is None


def test_undo_of_one_entry_is_refused_after_a_later_operation(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(4))
    with AnnotationStore(dataset) as mine, AnnotationStore(dataset) as theirs:
        first = mine.label([1], "a")
        theirs.label([2], "b")
        with pytest.raises(NotLatestError, match="label 1 image 'b'"):
            mine.undo(only=first.id)
        assert mine.refresh().get_labels([1, 2]) == ["a", "b"]
        theirs.undo()
        assert mine.undo(only=first.id).undone
        with pytest.raises(NotLatestError, match="nothing to undo"):
            mine.undo(only=first.id)
