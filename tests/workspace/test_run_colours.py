"""Colours of a run's clusters: those of the run before, kept, and the same when that one is gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.run_colours import colour_slots
from tests.pictures import save_pictures
from tests.workspace.handmade_results import handmade_result

TURNED = [1, 1, 1, 0, 0, 0]
"""The usual clusters, with the other numbers."""


def dated(run: RunFolder, seconds: int, **more: str) -> RunFolder:
    """The run as if it had been made then."""
    run.write_description({**run.description(), **more})
    os.utime(run.path / "run.json", (seconds, seconds))
    return run


def test_a_run_takes_the_colours_of_the_one_before(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    first = dated(handmade_result(workspace, dataset, name="first"), 100)
    second = dated(handmade_result(workspace, dataset, name="second", clusters=TURNED), 200)
    third = dated(handmade_result(workspace, dataset, name="third", clusters=TURNED), 300)
    assert colour_slots(workspace, third) == (1, 0)  # all three at once, without the others having been looked at
    assert [colour_slots(workspace, run) for run in (first, second)] == [(0, 1), (1, 0)]

    # They stay when the others are gone, and a damaged file is made again.
    shutil.rmtree(first.path)
    assert colour_slots(workspace, second) == (1, 0)
    (third.path / "colours.json").write_text("{")
    assert colour_slots(workspace, third) == (1, 0)

    # A newer result of the same run has its own.
    handmade_result(workspace, dataset, name="third", step=2)
    assert colour_slots(workspace, third) == (0, 1)


def test_a_child_takes_those_of_its_parent(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    parent = dated(handmade_result(workspace, dataset, name="parent"), 100)
    dated(handmade_result(workspace, dataset, name="between", clusters=[0, 1, 0, 1, 0, 1]), 200)
    child = dated(handmade_result(workspace, dataset, name="child"), 300, parent="parent")
    dated(parent, 400, title="renamed since")
    assert colour_slots(workspace, child) == (0, 1)


def test_other_data_sets_and_unfinished_runs_are_left_out(workspace: Workspace, tmp_path: Path):
    datasets: list[ImageDataset] = []
    for name in ("set", "other"):
        save_pictures(tmp_path / name, 6)
        datasets.append(workspace.import_dataset(str(tmp_path / name))[0])
    dated(handmade_result(workspace, datasets[1], name="elsewhere", clusters=TURNED), 100)
    unfinished = dated(handmade_result(workspace, datasets[0], name="unfinished", clusters=TURNED), 200)
    result = unfinished.path / "result.json"
    result.write_text(result.read_text().replace('"final": true', '"final": false'))
    run = dated(handmade_result(workspace, datasets[0], name="run"), 300)
    assert colour_slots(workspace, run) == (0, 1)
    assert not (unfinished.path / "colours.json").exists()
    assert colour_slots(workspace, unfinished) == (0, 1)
    assert not (unfinished.path / "colours.json").exists()  # its next result may be another
