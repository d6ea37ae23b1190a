"""Distributed training: equal to a single process with the same batch; all processes end when one dies."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.distributed import SINGLE_PROCESS, World
from tests.conftest import ROOT
from tests.fixtures.distributed_run import FORMS
from tests.fixtures.polling import wait_until

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
SCRIPT = str(ROOT / "tests/fixtures/distributed_run.py")
TIMEOUT_SECONDS = 60.0


def run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=ENVIRONMENT, cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """Return weights and losses of training in one process and in two."""
    folder = tmp_path_factory.mktemp("distributed")
    for name, launcher in (("one", [sys.executable]), ("two", TORCHRUN)):
        outcome = run_command([*launcher, SCRIPT, str(folder / name)])
        assert outcome.returncode == 0, outcome.stderr
    return tuple(torch.load(folder / name, weights_only=True) for name in ("one", "two"))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_distributed_training_in_two_processes_equals_one_process(outcomes: tuple[dict, dict], form: str):
    one, two = (outcome[form] for outcome in outcomes)
    assert len(one["losses"]) == 4
    torch.testing.assert_close(two["losses"], one["losses"], rtol=1e-6, atol=0)
    assert two["network"].keys() == one["network"].keys()
    for name, weights in one["network"].items():
        torch.testing.assert_close(two["network"][name], weights, rtol=1e-6, atol=1e-12, msg=name)


def test_world_of_one_process_gathers_nothing():
    rows = torch.rand(4, 3)
    assert SINGLE_PROCESS.gather(rows) is rows
    assert SINGLE_PROCESS.slice_draws(8) is None


def test_world_slices_a_batch_by_rank():
    assert World(1, 2).slice_rows(8) == slice(4, 8)
    assert World(1, 2).slice_draws(8) == (4, 8)


def test_run_on_rank_zero_raises_the_same_error_in_every_process(monkeypatch: pytest.MonkeyPatch):
    sent: list[bytes] = []

    def broadcast(objects: list[object]) -> None:
        """Send from rank 0, which is called first, and receive in the next call."""
        if sent:
            objects[:] = pickle.loads(sent[0])
        else:
            sent.append(pickle.dumps(objects))

    def fail() -> str:
        raise UsageError("clusters=1 is not allowed.", advice="Choose more.", parameters=("clusters",))

    monkeypatch.setattr("torch.distributed.broadcast_object_list", broadcast)
    for rank in (0, 1):
        with pytest.raises(UsageError, match="not allowed") as caught:
            World(rank, 2).run_on_rank_zero(fail)
        assert (caught.value.advice, caught.value.parameters) == ("Choose more.", ("clusters",))
        assert caught.value.exit_code == 2
    sent.clear()
    assert [World(rank, 2).run_on_rank_zero(lambda: "name") for rank in (0, 1)] == ["name", "name"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_distributed_run_fails_when_a_worker_is_killed_and_can_be_resumed(tmp_path: Path):
    arguments = ["train", "digits", "--workspace", str(tmp_path), "--epochs", "200", "--device", "cpu"]
    arguments += ["--set", "checkpoint_seconds=0", "--set", "batch_size=64", "--set", "subheads=2"]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "crlc", *arguments, "--devices", "2"],
        env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: any(find_checkpoints(tmp_path)), launcher)
        (worker,) = [p for p in psutil.Process(launcher.pid).children(recursive=True) if p.environ().get("RANK") == "1"]
        worker.send_signal(signal.SIGKILL)
        assert launcher.wait(timeout=TIMEOUT_SECONDS) == 1
    finally:
        for process in [*psutil.Process(launcher.pid).children(recursive=True)] if launcher.poll() is None else []:
            process.kill()
        launcher.kill()
        printed = launcher.stderr.read()
    (error,) = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert all(fact in error for fact in ("2 of 2", "SIGKILL", "resume"))
    assert "Traceback" not in printed
    (checkpoint,) = find_checkpoints(tmp_path)
    run = RunFolder(checkpoint.parent.parent)
    assert run.read_status().state.is_error
    before = read_step(run)
    assert before >= 1
    resumed = subprocess.Popen(
        [sys.executable, "-m", "crlc", "resume", run.id, "--workspace", str(tmp_path), "--device", "cpu"],
        env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: read_step(run) > before, resumed)
    finally:
        resumed.send_signal(signal.SIGINT)
        printed = resumed.communicate(timeout=TIMEOUT_SECONDS)[0]
    assert resumed.returncode == 0, printed
    assert run.read_status().state is RunState.STOPPED


@pytest.mark.slow
def test_distributed_run_prints_an_error_of_all_processes_once(tmp_path: Path):
    arguments = ["train", "digits", "--workspace", str(tmp_path), "--device", "cpu", "--clusters", "5000"]
    outcome = run_command([sys.executable, "-m", "crlc", *arguments, "--devices", "2"])
    assert outcome.returncode == 2
    (error,) = [line for line in outcome.stderr.splitlines() if line.startswith(("error", "Traceback", "E1", "W1"))]
    assert error.startswith("error: clusters=5000 ")
    assert "1797" in error


def find_checkpoints(workspace: Path) -> list[Path]:
    return list(workspace.glob("runs/*/checkpoints/last.pt"))


def read_step(run: RunFolder) -> int:
    return torch.load(run.checkpoint_file, weights_only=True)["step"]
