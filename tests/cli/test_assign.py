"""Command assign."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.runs.state import RunState
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

pytestmark = pytest.mark.slow

FAST = ("--set", "subheads=2", "--set", "batch_size=64")


def test_assign_predicts_the_clusters_of_the_run(crlc, small_set: Path, tmp_path: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 3, *FAST)
    result, _ = RunStore(workspace).open("last").open_result()
    images = np.load(small_set)["images"]
    folder = tmp_path / "new"
    folder.mkdir()
    for number in range(6):
        Image.fromarray(images[number]).save(folder / f"{number}.png")
    (folder / "broken.jpg").write_bytes(b"")
    found = crlc("assign", "last", folder, "--json").json
    assert [row["path"] for row in found["images"]] == [f"{number}.png" for number in range(6)]
    assert [row["cluster"] for row in found["images"]] == result["cluster"][:6].tolist()
    np.testing.assert_allclose([row["confidence"] for row in found["images"]], result["confidence"][:6], atol=1e-5)
    assert found["unreadable"] == {"broken.jpg": "the file is empty"}

    one = crlc("assign", "last", folder / "3.png", "--json").json
    assert one["images"][0]["cluster"] == result["cluster"][3]

    out = tmp_path / "out.csv"
    assert "6 images assigned, 1 " in crlc("assign", "last", folder, "--out", out).out
    with out.open(newline="") as stream:
        assert [int(row["cluster"]) for row in csv.DictReader(stream)] == result["cluster"][:6].tolist()
    assert "exists already" in crlc("assign", "last", folder, "--out", out).err
    assert "broken.jpg" in crlc("assign", "last", folder / "broken.jpg").err
    assert "nowhere" in crlc("assign", "last", tmp_path / "nowhere").err


def test_assign_refuses_a_run_without_checkpoint(crlc, small_set: Path, workspace: Workspace):
    crlc("train", small_set, "--epochs", 1, *FAST)
    run = RunStore(workspace).open("last")
    content = run.checkpoint_file.read_bytes()
    run.checkpoint_file.write_bytes(content[: len(content) // 2])
    damaged = [
        crlc("assign", "last", small_set).err,
        crlc("export", "last", "--model", run.path / "model.crlc").err,
    ]
    run.checkpoint_file.unlink()
    missing = crlc("assign", "last", small_set).err
    for error in (*damaged, missing):
        assert "checkpoint" in error
        assert "train again" in error
        assert "can still be" in error  # the result of the finished run is not lost
        assert "Delete" not in error
        assert "resume" not in error
    run.write_status(RunState.STOPPED)
    assert "resume" in crlc("assign", "last", small_set).err
    run.checkpoint_file.write_bytes(content[: len(content) // 2])
    assert "Delete it" in crlc("assign", "last", small_set).err
