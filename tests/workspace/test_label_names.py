"""A label renamed or removed as a whole; and undo that takes back only what is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.errors import UsageError
from crlc.workspace.annotations import Annotations, NotLatestError
from crlc.workspace.label_names import remove_label, rename_label
from tests.workspace.handmade import change_content, handmade_dataset, numbered, remove_image


def test_a_label_is_renamed_on_all_its_images_and_back_by_one_undo(tmp_path: Path):
    dataset = handmade_dataset(tmp_path, numbered(6))
    with Annotations(dataset) as annotations:
        annotations.label([1, 2, 3], "cat")
        annotations.label([4], "dog")
        change_content(dataset, 2)  # its label is about another picture now
        remove_image(dataset, 3)
        entry = rename_label(annotations, "cat", "  dog ")
        assert entry.title == "rename the label 'cat' of 3 images to 'dog'"
        assert annotations.refresh().labels([1, 2, 3, 4]) == ["dog"] * 4
        assert annotations.stale_labels().tolist() == [2]
        assert annotations.usable_labels().ids.tolist() == [1, 4]
        annotations.undo()
        assert annotations.refresh().labels([1, 2, 3, 4]) == ["cat", "cat", "cat", "dog"]
        assert rename_label(annotations, "cat", "cat") is None
        assert rename_label(annotations, "bird", "x") is None
        with pytest.raises(UsageError, match="empty"):
            rename_label(annotations, "cat", "  ")


def test_a_label_is_removed_from_all_its_images(tmp_path: Path):
    with Annotations(handmade_dataset(tmp_path, numbered(4))) as annotations:
        annotations.label([1, 2], "cat")
        annotations.label([3], "dog")
        assert remove_label(annotations, "cat").title == "remove the label 'cat' of 2 images"
        assert annotations.refresh().labelled().counts() == {"dog": 1}
        assert remove_label(annotations, "cat") is None


def test_undo_of_one_entry_is_refused_when_something_came_after_it(tmp_path: Path):
    dataset = handmade_dataset(tmp_path, numbered(4))
    with Annotations(dataset) as mine, Annotations(dataset) as theirs:
        first = mine.label([1], "a")
        theirs.label([2], "b")
        with pytest.raises(NotLatestError, match="label 1 image 'b'"):
            mine.undo(only=first.id)
        assert mine.refresh().labels([1, 2]) == ["a", "b"]
        theirs.undo()
        assert mine.undo(only=first.id).undone
        with pytest.raises(NotLatestError, match="nothing to undo"):
            mine.undo(only=first.id)
