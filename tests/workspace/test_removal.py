"""Removing a data set with its runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crlc.errors import NotFoundError, UsageError
from crlc.workspace import Workspace
from crlc.workspace.removal import remove_with_runs, runs_of_dataset
from crlc.workspace.runs import Runs
from tests.app.tiny_run import tiny_dataset, tiny_run
from tests.pictures import save_pictures


def test_its_runs_go_with_it_and_others_stay(workspace: Workspace, tmp_path: Path):
    run = tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    other = run.path.with_name("other-run")
    other.mkdir()
    description = json.loads((run.path / "run.json").read_text())
    (other / "run.json").write_text(json.dumps({**description, "dataset_uid": "of an earlier one of that name"}))
    damaged = run.path.with_name("damaged-run")
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    save_pictures(tmp_path / "more", 2)
    workspace.import_dataset(str(tmp_path / "more"))
    assert runs_of_dataset(workspace, "set") == ["tiny-run"]
    assert runs_of_dataset(workspace, "more") == []
    assert remove_with_runs(workspace, "set") == 1
    assert workspace.dataset_names() == ["more"]
    assert sorted(Runs(workspace).ids()) == ["damaged-run", "other-run"]
    assert len(list((tmp_path / "set").rglob("*.png"))) == 12  # the originals
    with pytest.raises(NotFoundError, match="No data set is named 'set'"):
        remove_with_runs(workspace, "set")


def test_nothing_goes_while_one_of_its_runs_is_trained(workspace: Workspace, tmp_path: Path):
    run = tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    run.write_status("running", epoch=0, epochs=1, step=0)  # by this process, which lives
    with pytest.raises(UsageError, match="tiny-run is running: stop it first"):
        remove_with_runs(workspace, "set")
    assert (workspace.dataset_names(), Runs(workspace).ids()) == (["set"], ["tiny-run"])


def test_of_a_damaged_one_the_runs_are_known_by_its_name(workspace: Workspace, tmp_path: Path):
    tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    (workspace.root / "datasets" / "set" / "dataset.json").write_text("{")
    assert remove_with_runs(workspace, "set") == 1
    assert (workspace.dataset_names(), Runs(workspace).ids()) == ([], [])
