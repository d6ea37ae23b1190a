"""RunStore: titles of runs."""

from __future__ import annotations

import os

import pytest

from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


def test_rename_changes_only_the_title(workspace: Workspace):
    runs = RunStore(workspace)
    for second, name in enumerate(("b", "a")):
        run = RunFolder(workspace.root / "runs" / name)
        own = {"dataset": "set", "dataset_uid": "u", "manifest_version": 1}
        run.write_metadata({**own, "settings": {"clusters": 3}})
        os.utime(run.path / "run.json", (1000 + second, 1000 + second))
    before = runs.open("b").read_metadata()
    runs.rename(runs.open("b"), "  The   first ")
    assert runs.open("b").read_metadata() == {**before, "title": "The first"}
    assert runs.list_ids() == ["b", "a"]  # the order stays
    runs.rename(runs.open("b"), " ")
    assert runs.open("b").read_metadata()["title"] is None
    with pytest.raises(UsageError, match=r"81 .* 80"):
        runs.rename(runs.open("b"), "x" * 81)
