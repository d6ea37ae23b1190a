"""Several processes do what one does with the same batch, and end when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from crlc.training.distributed import ALONE, World
from crlc.training.run_folder import RunFolder
from tests.conftest import ROOT
from tests.training.distributed_run import FORMS

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
SCRIPT = str(ROOT / "tests/training/distributed_run.py")


def finish(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=ENVIRONMENT, cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """Weights and losses of one process, and of two."""
    place = tmp_path_factory.mktemp("distributed")
    for name, launcher in (("one", [sys.executable]), ("two", TORCHRUN)):
        outcome = finish([*launcher, SCRIPT, str(place / name)])
        assert outcome.returncode == 0, outcome.stderr
    return tuple(torch.load(place / name, weights_only=True) for name in ("one", "two"))


@pytest.mark.parametrize("form", FORMS)
def test_two_processes_train_as_one_does(outcomes: tuple[dict, dict], form: str):
    one, two = (outcome[form] for outcome in outcomes)
    assert len(one["losses"]) == 4
    torch.testing.assert_close(two["losses"], one["losses"], rtol=1e-6, atol=0)
    assert two["network"].keys() == one["network"].keys()
    for name, weights in one["network"].items():
        torch.testing.assert_close(two["network"][name], weights, rtol=1e-6, atol=1e-12, msg=name)


def test_alone_nothing_is_shared():
    rows = torch.rand(4, 3)
    assert ALONE.gather(rows) is rows
    assert ALONE.share(8) is None
    assert (World(1, 2).rows(8), World(1, 2).share(8)) == (slice(4, 8), (4, 8))


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_worker_ends_the_run_as_failed_and_it_can_be_resumed(tmp_path: Path):
    arguments = ["train", "digits", "--workspace", str(tmp_path), "--epochs", "200", "--device", "cpu"]
    arguments += ["--set", "checkpoint_seconds=0", "--set", "batch_size=64", "--set", "subheads=2"]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "crlc", *arguments, "--devices", "2"],
        env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        run = _run_with_checkpoint(tmp_path, launcher)
        (worker,) = [p for p in psutil.Process(launcher.pid).children(recursive=True) if p.environ().get("RANK") == "1"]
        worker.send_signal(signal.SIGKILL)
        assert launcher.wait(timeout=120) == 1
    finally:
        for process in [*psutil.Process(launcher.pid).children(recursive=True)] if launcher.poll() is None else []:
            process.kill()
        launcher.kill()
        said = launcher.stderr.read()
    assert "error: Process 2 of 2 was killed (SIGKILL). Go on from its checkpoint: crlc resume RUN" in said
    assert "Traceback" not in said
    assert run.status()["state"] == "failed"
    before = torch.load(run.checkpoint_file, weights_only=True)["step"]
    assert before >= 1
    resumed = subprocess.Popen(
        [sys.executable, "-m", "crlc", "resume", run.id, "--workspace", str(tmp_path), "--device", "cpu"],
        env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        _wait_until(lambda: torch.load(run.checkpoint_file, weights_only=True)["step"] > before, resumed)
    finally:
        resumed.send_signal(signal.SIGINT)
        said = resumed.communicate(timeout=60)[0]
    assert resumed.returncode == 0, said
    assert run.status()["state"] == "stopped"


def test_what_is_wrong_is_said_once_and_in_one_line(tmp_path: Path):
    arguments = ["train", "digits", "--workspace", str(tmp_path), "--device", "cpu", "--clusters", "5000"]
    outcome = finish([sys.executable, "-m", "crlc", *arguments, "--devices", "2"])
    assert outcome.returncode == 2
    errors = [line for line in outcome.stderr.splitlines() if line.startswith(("error", "Traceback", "E1", "W1"))]
    assert errors == ["error: clusters=5000 is not allowed: there are only 1797 images. Choose fewer clusters."]


def _wait_until(done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something is so, while a process works for it."""
    while not done():
        assert process.poll() is None, process.stdout.read()


def _run_with_checkpoint(workspace: Path, launcher: subprocess.Popen[str]) -> RunFolder:
    """Wait until the run has written a checkpoint."""
    while launcher.poll() is None:
        for file in workspace.glob("runs/*/checkpoints/last.pt"):
            return RunFolder(file.parent.parent)
    raise AssertionError(launcher.communicate()[1])
