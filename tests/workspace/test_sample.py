"""The example: it belongs to the digits as they are imported now, comes once, and survives being cut off."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.analysis.agreement import agreement
from crlc.analysis.map_settings import METHODS, MapSettings
from crlc.errors import DamagedError
from crlc.files import writer_lock
from crlc.workspace import Workspace
from crlc.workspace.models import named_model
from crlc.workspace.run_files import read_result
from crlc.workspace.run_maps import ready_run_map
from crlc.workspace.runs import Runs
from crlc.workspace.sample import (
    SAMPLE_FILE,
    SAMPLE_RUN,
    decline_sample,
    has_sample_run,
    place_sample_once,
    sample_facts,
    wants_sample,
)
from tests.conftest import ROOT, Outcome
from tests.pictures import save_pictures

PLACE = """
import os, signal, sys
from pathlib import Path
from crlc.workspace import Workspace, sample

root, place = Path(sys.argv[1]), sys.argv[2]
if place == "import":
    from crlc.data import importer
    importer.mark_complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
elif place == "arrays":
    def unpacked(*arguments, extract=sample.zipfile.ZipFile.extract):
        if "result-" in arguments[1].filename:
            os.kill(os.getpid(), signal.SIGKILL)
        return extract(*arguments)
    sample.zipfile.ZipFile.extract = unpacked
elif place == "description":
    sample.RunFolder.write_description = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
elif place == "marker":
    def mark(workspace, state, write=sample._mark):
        if state != "placing":
            os.kill(os.getpid(), signal.SIGKILL)
        write(workspace, state)
    sample._mark = mark
print(sample.place_sample_once(Workspace(root)))
"""
"""Places the example in a process of its own, which is killed at a certain moment."""


def place_in_process(workspace: Workspace, killed_at: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PLACE, str(workspace.root), killed_at]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def placed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sample") / "workspace"
    assert place_sample_once(Workspace(root)) == SAMPLE_RUN
    return root


@pytest.fixture
def placed(placed_folder: Path, workspace: Workspace) -> Workspace:
    shutil.copytree(placed_folder, workspace.root)
    return workspace


def test_it_is_a_finished_run_of_the_digits_as_they_are_imported_now(placed: Workspace):
    run = Runs(placed).open(SAMPLE_RUN)
    dataset = Runs(placed).dataset_of(run.description())  # refuses a data set whose content is another
    assert run.status()["state"] == "finished"
    arrays, facts = read_result(run)
    assert facts["final"]
    ids = arrays["ids"]
    assert ids.tolist() == list(range(1, 1798)) == run.ids().tolist()
    found = agreement(np.asarray(arrays["cluster"]), dataset.facts(ids).class_numbers)
    *_, last = run.metrics()
    assert found.acc == pytest.approx(last["acc"])
    assert found.acc > 0.9
    np.testing.assert_allclose(np.linalg.norm(arrays["z"], axis=1), 1, atol=2e-3)
    np.testing.assert_allclose(arrays["q"].max(axis=1), arrays["confidence"], atol=1e-6)
    for method in METHODS:
        assert ready_run_map(run, arrays["z"], MapSettings(method)) is not None, method


def test_its_network_gives_its_result(placed: Workspace):
    run = Runs(placed).open(SAMPLE_RUN)
    model = named_model(Runs(placed), run, torch.device("cpu"))
    ids = run.ids()[::50]
    pixels = torch.from_numpy(placed.dataset("digits").pixels(16).read(ids))
    with torch.no_grad():
        q = model.network(pixels.permute(0, 3, 1, 2).float() / 255).q[model.subhead]
    np.testing.assert_allclose(q.numpy(), read_result(run).arrays["q"][ids - 1], atol=1e-3)


def test_it_is_the_parent_of_a_semi_run(placed: Workspace, crlc: Callable[..., Outcome]):
    assert placed.root.is_dir()
    said = crlc("train", "digits", "--method", "semi", "--parent", SAMPLE_RUN, "--labels", "classes:1", "--epochs", 1)
    assert said.code == 0, said.err


def test_the_archive_is_small_and_tells_how_it_was_made():
    assert SAMPLE_FILE.stat().st_size < 1_600_000
    assert sample_facts()["command"] == "crlc train digits --preset quick --seed 0"


def test_whoever_deletes_it_does_not_get_it_back(placed: Workspace):
    Runs(placed).delete(Runs(placed).open(SAMPLE_RUN))
    placed.remove("digits")
    assert not wants_sample(placed)
    assert place_sample_once(placed) is None
    assert placed.dataset_names() == []


def test_a_workspace_in_use_never_gets_it(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "own", 2)
    workspace.import_dataset(str(tmp_path / "own"))
    assert place_sample_once(workspace) is None
    workspace.remove("own")
    assert place_sample_once(workspace) is None
    assert workspace.dataset_names() == []


def test_it_can_be_declined(workspace: Workspace):
    assert wants_sample(workspace)
    decline_sample(workspace)
    assert place_sample_once(workspace) is None


@pytest.mark.parametrize("moment", ["import", "arrays", "description", "marker"])
def test_killed_on_the_way_it_is_finished_at_the_next_start(workspace: Workspace, moment: str):
    assert place_in_process(workspace, moment).returncode == -9
    assert has_sample_run(workspace) == (moment == "marker")
    assert [run for run in Runs(workspace).ids() if run != SAMPLE_RUN] == []
    assert place_sample_once(workspace) == SAMPLE_RUN
    assert workspace.dataset("digits").summary().complete
    assert len(read_result(Runs(workspace).open(SAMPLE_RUN)).arrays["ids"]) == 1797
    assert not wants_sample(workspace)


def test_of_two_servers_one_does_it(workspace: Workspace):
    workspace.root.mkdir()
    with writer_lock(workspace.root / "locks" / "example.lock", "The example"):
        assert place_in_process(workspace).stdout == "None\n"
    assert workspace.dataset_names() == []
    assert place_in_process(workspace).stdout == f"{SAMPLE_RUN}\n"


def test_other_digits_come_without_the_run(workspace: Workspace, tmp_path: Path):
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(SAMPLE_FILE) as original, zipfile.ZipFile(archive, "w") as changed:
        for entry in original.infolist():
            content = original.read(entry)
            changed.writestr(entry, content.replace(sample_facts()["digest"].encode(), b"0" * 64))
    assert place_sample_once(workspace, archive) is None
    assert workspace.dataset_names() == ["digits"]
    assert not has_sample_run(workspace)
    assert not wants_sample(workspace)


def test_a_damaged_archive_changes_nothing(workspace: Workspace, tmp_path: Path):
    archive = tmp_path / "cut.zip"
    archive.write_bytes(SAMPLE_FILE.read_bytes()[:5000])
    with pytest.raises(DamagedError, match="make_sample_run"):
        place_sample_once(workspace, archive)
    assert workspace.dataset_names() == []
    assert wants_sample(workspace)
    assert not os.path.lexists(workspace.root / "runs")


def test_while_another_imports_the_digits_it_waits_for_the_next_start(workspace: Workspace):
    with writer_lock(workspace.root / "locks" / "dataset-digits.lock", "The data set"):
        assert place_sample_once(workspace) is None
    assert wants_sample(workspace)
    assert place_sample_once(workspace) == SAMPLE_RUN
