"""Folders that were imported last."""

from __future__ import annotations

from pathlib import Path

from crlc.workspace import Workspace
from crlc.workspace.recent_folders import add_recent_folder, list_recent_folders


def test_recent_folders_are_those_that_exist_the_newest_first(tmp_path: Path):
    workspace = Workspace(tmp_path / "workspace")
    assert list_recent_folders(workspace) == []
    folders = [tmp_path / str(number) for number in range(10)]
    for folder in [*folders, folders[5]]:
        folder.mkdir(exist_ok=True)
        add_recent_folder(workspace, str(folder))
    assert list_recent_folders(workspace) == [str(folders[number]) for number in (5, 9, 8, 7, 6, 4, 3, 2)]
    folders[9].rmdir()
    assert list_recent_folders(workspace)[:2] == [str(folders[5]), str(folders[8])]
    (workspace.root / "recent-folders.json").write_text("{")
    assert list_recent_folders(workspace) == []
