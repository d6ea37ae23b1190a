"""Titles of runs."""

from __future__ import annotations

import os

import pytest

from crlc.errors import UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs


def test_a_title_leaves_all_else_as_it_was(workspace: Workspace):
    runs = Runs(workspace)
    for second, name in enumerate(("b", "a")):
        run = RunFolder(workspace.root / "runs" / name)
        run.write_description({"dataset": "set", "settings": {"clusters": 3}})
        os.utime(run.path / "run.json", (1000 + second, 1000 + second))
    before = runs.open("b").description()
    runs.rename(runs.open("b"), "  The   first ")
    assert runs.open("b").description() == {**before, "title": "The first"}
    assert runs.ids() == ["b", "a"]  # still the older one
    runs.rename(runs.open("b"), " ")
    assert runs.open("b").description()["title"] is None
    with pytest.raises(UsageError, match="has 81 letters; it may have up to 80"):
        runs.rename(runs.open("b"), "x" * 81)
