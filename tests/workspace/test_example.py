"""The example: it fits the digits dataset, is installed once, and survives interruptions."""

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

from crlc.analysis.class_metrics import compute_agreement
from crlc.analysis.maps.settings import MAP_METHODS, MapSettings
from crlc.errors import DamagedError
from crlc.files import writer_lock
from crlc.runs.maps import load_run_map
from crlc.runs.results import read_result
from crlc.services.models import load_named_model
from crlc.workspace import Workspace
from crlc.workspace.example import (
    EXAMPLE_ARCHIVE,
    EXAMPLE_RUN,
    decline_example,
    has_example_run,
    install_example_once,
    needs_example,
    read_example_metadata,
)
from crlc.workspace.runs import RunStore
from tests.conftest import ROOT, Outcome
from tests.fixtures.images import save_images

pytestmark = pytest.mark.slow

INSTALL_SCRIPT = """
import os, signal, sys
from pathlib import Path
from crlc.workspace import Workspace
from crlc.workspace import example

root, moment = Path(sys.argv[1]), sys.argv[2]
if moment == "import":
    from crlc.data import importer
    importer.mark_complete = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
elif moment == "arrays":
    def extract_or_die(*arguments, extract=example.zipfile.ZipFile.extract):
        if "result-" in arguments[1].filename:
            os.kill(os.getpid(), signal.SIGKILL)
        return extract(*arguments)
    example.zipfile.ZipFile.extract = extract_or_die
elif moment == "metadata":
    example.RunFolder.write_metadata = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
elif moment == "state":
    def write_state(workspace, state, write=example._write_state):
        if state != "placing":
            os.kill(os.getpid(), signal.SIGKILL)
        write(workspace, state)
    example._write_state = write_state
print(example.install_example_once(Workspace(root)))
"""
"""Script that installs the example and kills its own process at the given moment."""


def install_in_process(workspace: Workspace, killed_at: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", INSTALL_SCRIPT, str(workspace.root), killed_at]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def installed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("example") / "workspace"
    assert install_example_once(Workspace(root)) == EXAMPLE_RUN
    return root


@pytest.fixture
def installed(installed_folder: Path, workspace: Workspace) -> Workspace:
    shutil.copytree(installed_folder, workspace.root)
    return workspace


def test_example_is_a_finished_run_of_the_digits(installed: Workspace):
    run = RunStore(installed).open(EXAMPLE_RUN)
    dataset = RunStore(installed).open_dataset_of(run.read_metadata())  # refuses a dataset with other content
    assert run.read_status().state == "finished"
    arrays, metadata = read_result(run)
    assert metadata["final"]
    ids = arrays["ids"]
    assert ids.tolist() == list(range(1, 1798)) == run.read_ids().tolist()
    found = compute_agreement(np.asarray(arrays["cluster"]), dataset.read_metadata(ids).class_numbers)
    *_, last = run.metrics_log.read()
    assert found.acc == pytest.approx(last["acc"])
    assert found.acc > 0.9
    np.testing.assert_allclose(np.linalg.norm(arrays["z"], axis=1), 1, atol=2e-3)
    np.testing.assert_allclose(arrays["q"].max(axis=1), arrays["confidence"], atol=1e-6)
    for method in MAP_METHODS:
        assert load_run_map(run, arrays["z"], MapSettings(method)) is not None, method


def test_example_network_reproduces_the_result(installed: Workspace):
    run = RunStore(installed).open(EXAMPLE_RUN)
    model = load_named_model(RunStore(installed), run, torch.device("cpu"))
    ids = run.read_ids()[::50]
    pixels = torch.from_numpy(installed.open_dataset("digits").open_pixels(16).read(ids))
    with torch.no_grad():
        q = model.network(pixels.permute(0, 3, 1, 2).float() / 255).q[model.subhead]
    np.testing.assert_allclose(q.numpy(), read_result(run).arrays["q"][ids - 1], atol=1e-3)


def test_example_can_be_the_parent_of_a_semi_run(installed: Workspace, crlc: Callable[..., Outcome]):
    assert installed.root.is_dir()
    outcome = crlc(
        "train", "digits", "--method", "semi", "--parent", EXAMPLE_RUN, "--labels", "classes:1", "--epochs", 1
    )
    assert outcome.code == 0, outcome.err


def test_example_archive_is_small_and_names_its_command():
    assert EXAMPLE_ARCHIVE.stat().st_size < 1_600_000
    assert read_example_metadata()["command"] == "crlc train digits --preset quick --seed 0"


def test_example_is_not_installed_again_after_its_removal(installed: Workspace):
    RunStore(installed).delete(RunStore(installed).open(EXAMPLE_RUN))
    installed.remove_dataset("digits")
    assert not needs_example(installed)
    assert install_example_once(installed) is None
    assert installed.list_dataset_names() == []


def test_example_is_not_installed_in_a_workspace_in_use(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "own", 2)
    workspace.import_dataset(str(tmp_path / "own"))
    assert install_example_once(workspace) is None
    workspace.remove_dataset("own")
    assert install_example_once(workspace) is None
    assert workspace.list_dataset_names() == []


def test_example_can_be_declined(workspace: Workspace):
    assert needs_example(workspace)
    decline_example(workspace)
    assert install_example_once(workspace) is None


@pytest.mark.parametrize("moment", ["import", "arrays", "metadata", "state"])
def test_example_installation_continues_after_a_kill(workspace: Workspace, moment: str):
    assert install_in_process(workspace, moment).returncode == -9
    assert has_example_run(workspace) == (moment == "state")
    assert [run for run in RunStore(workspace).list_ids() if run != EXAMPLE_RUN] == []
    assert install_example_once(workspace) == EXAMPLE_RUN
    assert workspace.open_dataset("digits").summarize().complete
    assert len(read_result(RunStore(workspace).open(EXAMPLE_RUN)).arrays["ids"]) == 1797
    assert not needs_example(workspace)


def test_example_is_installed_by_one_of_two_servers(workspace: Workspace):
    workspace.root.mkdir()
    with writer_lock(workspace.root / "locks" / "example.lock", "The example"):
        assert install_in_process(workspace).stdout == "None\n"
    assert workspace.list_dataset_names() == []
    assert install_in_process(workspace).stdout == f"{EXAMPLE_RUN}\n"


def test_example_run_is_left_out_when_the_dataset_differs(workspace: Workspace, tmp_path: Path):
    archive = tmp_path / "other.zip"
    with zipfile.ZipFile(EXAMPLE_ARCHIVE) as original, zipfile.ZipFile(archive, "w") as changed:
        for entry in original.infolist():
            content = original.read(entry)
            changed.writestr(entry, content.replace(read_example_metadata()["digest"].encode(), b"0" * 64))
    assert install_example_once(workspace, archive) is None
    assert workspace.list_dataset_names() == ["digits"]
    assert not has_example_run(workspace)
    assert not needs_example(workspace)


def test_example_with_a_damaged_archive_changes_nothing(workspace: Workspace, tmp_path: Path):
    archive = tmp_path / "cut.zip"
    archive.write_bytes(EXAMPLE_ARCHIVE.read_bytes()[:5000])
    with pytest.raises(DamagedError, match="cut.zip"):
        install_example_once(workspace, archive)
    assert workspace.list_dataset_names() == []
    assert needs_example(workspace)
    assert not os.path.lexists(workspace.root / "runs")


def test_example_waits_while_another_process_imports_the_digits(workspace: Workspace):
    with writer_lock(workspace.root / "locks" / "dataset-digits.lock", "The dataset"):
        assert install_example_once(workspace) is None
    assert needs_example(workspace)
    assert install_example_once(workspace) == EXAMPLE_RUN
