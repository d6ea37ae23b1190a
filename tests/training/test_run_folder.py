"""The files of a run: torn lines, dead processes, foreign files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.errors import DamagedError, NotFoundError
from crlc.files import write_json
from crlc.training.checkpoint import load_checkpoint, save_checkpoint
from crlc.training.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def test_a_torn_last_line_is_dropped(run: RunFolder):
    run.append_metrics({"step": 1})
    run.append_metrics({"step": 2})
    length = run.flush_metrics()
    run.append_metrics({"step": 3})
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 4')
    assert [record["step"] for record in run.metrics()] == [1, 2, 3]
    run.cut_metrics(length)
    assert [record["step"] for record in run.metrics()] == [1, 2]


def test_a_dead_or_reused_pid_never_shows_as_running(run: RunFolder):
    run.write_status("running", step=1)
    assert run.status()["state"] == "running"
    status = {"kind": "status", "version": 1, "state": "running", "heartbeat": 0.0}
    for pid, started in ((2**22 + 1, 0.0), (os.getpid(), 12345.0)):  # nobody; somebody else's old number
        write_json(run.path / "status.json", {**status, "pid": pid, "process_started": started})
        assert run.status()["state"] == "failed"
        assert "can be resumed" in run.status()["message"]


def test_results_are_replaced_whole(run: RunFolder):
    with pytest.raises(NotFoundError, match="has no result yet"):
        run.result()
    for rows, final in ((2, False), (4, True)):  # the same step twice, as after a run that was cut off at its end
        folder = run.new_result_folder(step=7)
        np.save(folder / "q.npy", np.ones((rows, 3), np.float32))
        run.publish_result(folder, {"final": final})
    assert len(list(run.path.glob("result-*"))) == 1
    arrays, facts = run.result()
    assert arrays["q"].shape == (4, 3)
    assert facts["final"]


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/never-created-by-crlc",)


def test_checkpoints_do_not_run_code(tmp_path: Path):
    torch.save({"format": 1, "network": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(DamagedError, match="cannot be read"):
        load_checkpoint(tmp_path / "evil.pt", torch.device("cpu"))
    assert not Path("/tmp/never-created-by-crlc").exists()


def test_a_truncated_or_foreign_checkpoint_is_said(tmp_path: Path):
    save_checkpoint(tmp_path / "good.pt", {"step": 3})
    assert load_checkpoint(tmp_path / "good.pt", torch.device("cpu"))["step"] == 3
    content = (tmp_path / "good.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: len(content) // 2])
    torch.save([1, 2], tmp_path / "foreign.pt")
    torch.save({"format": 99}, tmp_path / "newer.pt")
    for name in ("cut.pt", "foreign.pt", "newer.pt"):
        with pytest.raises(DamagedError):
            load_checkpoint(tmp_path / name, torch.device("cpu"))
