"""Whether originals are still there."""

from __future__ import annotations

import shutil
from pathlib import Path

from crlc.workspace import Workspace
from crlc.workspace.originals import missing_originals
from tests.pictures import save_pictures


def test_originals_that_are_gone_are_noticed(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    assert missing_originals(dataset) is None
    files = sorted((tmp_path / "set").iterdir())
    for file in files[1:]:
        file.unlink()
    assert missing_originals(workspace.dataset("set")) is None  # some are there: it is the right place
    files[0].unlink()
    assert str(missing_originals(workspace.dataset("set"))).startswith("None of the images looked at are in")
    shutil.rmtree(tmp_path / "set")
    assert "does not exist" in str(missing_originals(workspace.dataset("set")))


def test_built_in_data_sets_are_always_there(workspace: Workspace):
    dataset, _ = workspace.import_dataset("digits")
    assert missing_originals(dataset) is None
