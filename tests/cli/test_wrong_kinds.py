"""Commands with a folder, or a link to itself, in the place of a workspace file: one line that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, build_numbered_paths(6))


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    run = write_handmade_result(workspace, dataset)
    run.write_status(RunState.FINISHED, epoch=3, epochs=3)
    return run


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_metadata_to_itself(runs: Path) -> None:
    (runs / "other").mkdir()
    link_to_itself(runs / "other" / "run.json")


def make_folder_of_metrics(runs: Path) -> None:
    run = RunFolder(runs / "other")
    run.write_metadata({"dataset": "set", "dataset_uid": "uid-set", "manifest_version": 1, "settings": {}})
    run.metrics_log.path.mkdir()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (make_folder_of_metrics, "metrics.jsonl"),
        (link_metadata_to_itself, "run.json"),
        (lambda runs: link_to_itself(runs / "other"), "other"),
    ],
)
@pytest.mark.usefixtures("run")
def test_runs_lists_a_run_with_a_wrong_kind_of_file_as_damaged(
    crlc, workspace: Workspace, damage: Callable[[Path], None], named: str
):
    damage(workspace.root / "runs")
    listed = crlc("runs")
    assert (listed.code, listed.err) == (0, "")
    states = {one["run"]: (one["state"], one["message"]) for one in crlc("runs", "--json").json["runs"]}
    assert states["run-1"][0] == "finished"
    assert states["other"][0] == "damaged"
    assert named in states["other"][1]
    assert crlc("quality", "run-1").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("label", "set", "undo"),
        ("label", "set", "export", "labels.csv"),
        ("duplicates", "run-1"),
        ("export", "run-1", "--out", "out.csv"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("run")
def test_commands_name_annotations_that_are_a_link_to_themselves(
    crlc, dataset: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    file = dataset.folder / "annotations.sqlite"
    link_to_itself(file)
    outcome = crlc(*arguments)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {file} cannot be read")
    assert outcome.err.count("\n") == 1


def test_commands_name_a_missing_array_of_a_finished_run(crlc, run: RunFolder):
    file = next(run.path.glob("result-*/z.npy"))
    file.unlink()
    error = crlc("quality", "run-1").err
    assert f"{file} is missing" in error
    assert "Train again" in error
    assert "resume" not in error.lower()
