"""RunFolder: interrupted writes, dead processes, foreign files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.errors import DamagedError, NotFoundError
from crlc.files import write_json
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.checkpoint import WeightsEntries, load_checkpoint, save_checkpoint


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def test_metrics_log_ignores_an_incomplete_last_line(run: RunFolder):
    run.metrics_log.append({"step": 1})
    run.metrics_log.append({"step": 2})
    length = run.metrics_log.flush()
    run.metrics_log.append({"step": 3})
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 4')
    assert [record["step"] for record in run.metrics_log.read()] == [1, 2, 3]
    run.metrics_log.truncate(length)
    assert [record["step"] for record in run.metrics_log.read()] == [1, 2]


def test_read_status_finds_dead_processes_and_reused_ids(run: RunFolder):
    run.write_status(RunState.RUNNING, step=1)
    assert run.read_status().state is RunState.RUNNING
    status = {"kind": "status", "version": 1, "state": "running", "heartbeat": 0.0}
    for pid, started in (
        (2**22 + 1, 0.0),
        (os.getpid(), 12345.0),
    ):  # a process id that does not exist; another start time
        write_json(run.path / "status.json", {**status, "pid": pid, "process_started": started})
        assert run.read_status().state is RunState.INTERRUPTED
        assert run.read_status().message


def test_run_with_a_damaged_status_is_resumable_after_the_advice(run: RunFolder):
    run.write_status(RunState.STOPPED, step=1)
    (run.path / "status.json").write_text("")
    with pytest.raises(DamagedError, match=r"status\.json cannot be read") as caught:
        run.read_status()
    assert "Delete it" in caught.value.advice  # not the folder of the run
    (run.path / "status.json").unlink()
    assert run.read_status().state is RunState.INTERRUPTED


def test_publish_result_replaces_the_old_result(run: RunFolder):
    with pytest.raises(NotFoundError, match="has no result yet"):
        run.open_result()
    for rows, final in ((2, False), (4, True)):  # the same step twice, as after an interruption at the end of the run
        folder = run.create_result_folder(step=7)
        np.save(folder / "q.npy", np.ones((rows, 3), np.float32))
        run.publish_result(folder, {"final": final})
    assert len(list(run.path.glob("result-*"))) == 1
    arrays, metadata = run.open_result()
    assert arrays["q"].shape == (4, 3)
    assert metadata["final"]


@pytest.mark.parametrize(
    ("state", "advice"),
    [(RunState.FINISHED, "Train again; the labels"), (RunState.STOPPED, "Resume the run")],
)
def test_open_result_names_a_missing_array(run: RunFolder, state: RunState, advice: str):
    folder = run.create_result_folder(step=1)
    for name in ("q", "z"):
        np.save(folder / f"{name}.npy", np.ones((2, 3), np.float32))
    run.publish_result(folder, {})
    run.write_status(state)
    (folder / "z.npy").unlink()
    with pytest.raises(DamagedError) as raised:
        run.open_result()
    assert raised.value.message == f"{folder / 'z.npy'} is missing."
    assert advice in raised.value.advice


class Evil:
    """Creates a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_load_checkpoint_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"format": 1, "network": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(DamagedError, match="cannot be read"):
        load_checkpoint(tmp_path / "evil.pt", WeightsEntries)
    assert not (tmp_path / "executed").exists()


def test_load_checkpoint_refuses_truncated_and_foreign_files(tmp_path: Path):
    save_checkpoint(tmp_path / "good.pt", {"network": {"bias": torch.ones(3)}})
    assert load_checkpoint(tmp_path / "good.pt", WeightsEntries)["network"]["bias"].sum() == 3
    content = (tmp_path / "good.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) // 2])
    torch.save([1, 2], tmp_path / "foreign.pt")
    torch.save({"format": 99}, tmp_path / "newer.pt")
    for name, words in (("cut", "cannot be read"), ("foreign", "not a checkpoint"), ("newer", "not a checkpoint")):
        with pytest.raises(DamagedError, match=rf"{name}\.pt .*{words}"):
            load_checkpoint(tmp_path / f"{name}.pt", WeightsEntries)
