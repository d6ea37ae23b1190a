"""Colours of a run's clusters: inherited from the previous run, and kept after that run is deleted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from crlc.clusters.colours import load_or_assign_colours
from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from tests.fixtures.handmade_run import write_handmade_result
from tests.fixtures.images import save_images

SWAPPED = [1, 1, 1, 0, 0, 0]
"""The default clusters with swapped numbers."""


def update_metadata(run: RunFolder, seconds: int, **more: str) -> RunFolder:
    """Return the run after setting its modification time and further metadata."""
    run.write_metadata({**run.read_metadata(), **more})
    os.utime(run.path / "run.json", (seconds, seconds))
    return run


def test_colours_of_a_run_follow_the_previous_run(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    first = update_metadata(write_handmade_result(workspace, dataset, name="first"), 100)
    second = update_metadata(write_handmade_result(workspace, dataset, name="second", clusters=SWAPPED), 200)
    third = update_metadata(write_handmade_result(workspace, dataset, name="third", clusters=SWAPPED), 300)
    assert load_or_assign_colours(workspace, third) == (1, 0)  # assigns the colours of all three runs
    assert [load_or_assign_colours(workspace, run) for run in (first, second)] == [(0, 1), (1, 0)]

    # The colours stay when the previous run is deleted, and a damaged file is written again.
    shutil.rmtree(first.path)
    assert load_or_assign_colours(workspace, second) == (1, 0)
    (third.path / "colours.json").write_text("{")
    assert load_or_assign_colours(workspace, third) == (1, 0)

    # A newer result of the same run gets new colours.
    write_handmade_result(workspace, dataset, name="third", step=2)
    assert load_or_assign_colours(workspace, third) == (0, 1)


def test_colours_of_a_child_follow_its_parent(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    parent = update_metadata(write_handmade_result(workspace, dataset, name="parent"), 100)
    update_metadata(write_handmade_result(workspace, dataset, name="between", clusters=[0, 1, 0, 1, 0, 1]), 200)
    child = update_metadata(write_handmade_result(workspace, dataset, name="child"), 300, parent="parent")
    update_metadata(parent, 400, title="renamed since")
    assert load_or_assign_colours(workspace, child) == (0, 1)


def test_colours_ignore_other_datasets_and_unfinished_runs(workspace: Workspace, tmp_path: Path):
    datasets: list[ImageDataset] = []
    for name in ("set", "other"):
        save_images(tmp_path / name, 6)
        datasets.append(workspace.import_dataset(str(tmp_path / name))[0])
    update_metadata(write_handmade_result(workspace, datasets[1], name="elsewhere", clusters=SWAPPED), 100)
    unfinished = update_metadata(
        write_handmade_result(workspace, datasets[0], name="unfinished", clusters=SWAPPED), 200
    )
    result = unfinished.path / "result.json"
    result.write_text(result.read_text().replace('"final": true', '"final": false'))
    run = update_metadata(write_handmade_result(workspace, datasets[0], name="run"), 300)
    assert load_or_assign_colours(workspace, run) == (0, 1)
    assert not (unfinished.path / "colours.json").exists()
    assert load_or_assign_colours(workspace, unfinished) == (0, 1)
    assert not (unfinished.path / "colours.json").exists()  # its next result may have other clusters
