"""Originals of a dataset: their paths, and missing ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from crlc.data.originals import find_missing_originals, find_original
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


def test_find_missing_originals_reports_an_error_only_if_all_are_missing(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    assert find_missing_originals(dataset) is None
    files = sorted((tmp_path / "set").iterdir())
    for file in files[1:]:
        file.unlink()
    assert find_missing_originals(workspace.open_dataset("set")) is None  # one is left, so the folder is the right one
    files[0].unlink()
    error = find_missing_originals(workspace.open_dataset("set"))
    assert error is not None
    assert str(tmp_path / "set") in error.message
    shutil.rmtree(tmp_path / "set")
    assert "does not exist" in str(find_missing_originals(workspace.open_dataset("set")))


def test_find_missing_originals_reports_none_for_built_in_datasets(workspace: Workspace):
    dataset, _ = workspace.import_dataset("digits")
    assert find_missing_originals(dataset) is None


def test_find_original_returns_the_path_on_this_computer(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path / "set", 1)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    assert find_original(dataset, "00000.png") == files[0]
    digits, _ = workspace.import_dataset("digits")
    assert find_original(digits, digits.sample_records(1)[0].path) is None  # not a file of its own
