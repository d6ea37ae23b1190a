"""Removal of a dataset, alone or together with its runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crlc.errors import NotFoundError, UsageError
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from crlc.workspace.removal import find_runs_of_dataset, remove_dataset_with_runs
from crlc.workspace.runs import RunStore
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


def test_remove_dataset_with_runs_keeps_other_runs(workspace: Workspace, tmp_path: Path):
    run = write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    other = run.path.with_name("other-run")
    other.mkdir()
    description = json.loads((run.path / "run.json").read_text())
    (other / "run.json").write_text(json.dumps({**description, "dataset_uid": "of an earlier dataset of that name"}))
    damaged = run.path.with_name("damaged-run")
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    save_images(tmp_path / "more", 2)
    workspace.import_dataset(str(tmp_path / "more"))
    assert find_runs_of_dataset(workspace, "set") == ["tiny-run"]
    assert find_runs_of_dataset(workspace, "more") == []
    assert remove_dataset_with_runs(workspace, "set") == 1
    assert workspace.list_dataset_names() == ["more"]
    assert sorted(RunStore(workspace).list_ids()) == ["damaged-run", "other-run"]
    assert len(list((tmp_path / "set").rglob("*.png"))) == 12  # the originals
    with pytest.raises(NotFoundError, match="'set'"):
        remove_dataset_with_runs(workspace, "set")


def test_remove_dataset_with_runs_refuses_while_one_is_training(workspace: Workspace, tmp_path: Path):
    run = write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    run.write_status(RunState.RUNNING, epoch=0, epochs=1, step=0)  # by this process, which is alive
    with pytest.raises(UsageError, match="tiny-run .* running"):
        remove_dataset_with_runs(workspace, "set")
    assert (workspace.list_dataset_names(), RunStore(workspace).list_ids()) == (["set"], ["tiny-run"])


def test_remove_dataset_with_runs_finds_those_of_a_damaged_dataset_by_name(workspace: Workspace, tmp_path: Path):
    write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    (workspace.root / "datasets" / "set" / "dataset.json").write_text("{")
    assert remove_dataset_with_runs(workspace, "set") == 1
    assert (workspace.list_dataset_names(), RunStore(workspace).list_ids()) == ([], [])


def test_removal_deletes_the_leftovers_of_an_interrupted_removal(workspace: Workspace, tmp_path: Path):
    for name in ("one", "two"):
        save_images(tmp_path / name, 1)
        workspace.import_dataset(str(tmp_path / name))
    left = workspace.root / "datasets" / ".removed-123"
    (workspace.root / "datasets" / "one").rename(left)
    assert workspace.list_dataset_names() == ["two"]
    workspace.remove_dataset("two")
    assert not left.exists()


@pytest.mark.parametrize("name", ["x" * 300, "../../zz", "a\0b"])
def test_removal_of_an_impossible_name_creates_nothing(crlc, workspace: Workspace, name: str):
    outcome = crlc("remove", name, "--yes")
    assert outcome.code == 1
    assert "No dataset is named" in outcome.err
    assert not workspace.root.exists()
