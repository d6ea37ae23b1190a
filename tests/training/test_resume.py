"""Resuming a run: killed or stopped anywhere, it ends with the same metrics as an uninterrupted run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.run_logger import ProgressListener
from tests.conftest import ROOT
from tests.fixtures.killed_run import FORMS, MOMENTS
from tests.fixtures.training_runs import FROZEN, TINY, create_trainer, make_colour_images, read_records, train
from tests.training.conftest import UninterruptedRun

CHECKPOINT_KEYS = {
    "format", "settings", "batch_size", "step", "network", "stage", "optimiser", "bank", "totals", "scaler", "subhead",
    "subhead_by_loss", "latest", "seconds", "metrics_length", "is_result_selected",
}  # fmt: skip
"""Part of the file format: earlier versions wrote the same keys, except the last."""


def kill_run(folder: Path, form: str, moment: str) -> None:
    """Train a run in a process that kills itself."""
    command = [sys.executable, "-m", "tests.fixtures.killed_run", str(folder), form, moment]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr


def assert_same_run(folder: Path, uninterrupted: Path) -> None:
    assert read_records(folder) == read_records(uninterrupted)
    arrays, expected = (RunFolder(path).open_result()[0] for path in (folder, uninterrupted))
    np.testing.assert_array_equal(arrays["q"], expected["q"])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("form", "fatal_step"),
    [
        ("simclr", 1),
        ("simclr", 9),
        ("simclr", 18),
        ("memory-bank", 7),
        ("two-stage", 9),  # three steps per epoch: the last step of the first stage
        ("two-stage", 10),
        ("two-stage", 14),
    ],
)
def test_resume_after_kill_at_a_step_is_exact(
    tmp_path: Path, uninterrupted_run: UninterruptedRun, form: str, fatal_step: int
):
    kill_run(tmp_path / "run", form, str(fatal_step))
    assert RunFolder(tmp_path / "run").read_status().state is RunState.INTERRUPTED
    with (tmp_path / "run" / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "step", "torn')  # as a kill during a write leaves it
    train(tmp_path / "run", FORMS[form])
    assert_same_run(tmp_path / "run", uninterrupted_run(FORMS[form]))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", MOMENTS)
def test_resume_after_kill_during_a_write_is_exact(tmp_path: Path, uninterrupted_run: UninterruptedRun, moment: str):
    kill_run(tmp_path / "run", "simclr", moment)
    train(tmp_path / "run")
    assert_same_run(tmp_path / "run", uninterrupted_run(TINY))


@pytest.mark.slow
def test_resume_after_stop_is_exact(tmp_path: Path, uninterrupted_run: UninterruptedRun):
    folder = RunFolder(tmp_path / "run")
    listener = ProgressListener(lambda progress: trainer.request_stop() if progress.step == 8 else None)
    trainer = create_trainer(folder.path, listener=listener)
    assert trainer.run() is RunState.STOPPED
    assert folder.read_status().state is RunState.STOPPED
    assert folder.read_status().step == 8
    train(folder.path)
    assert folder.read_status().state is RunState.FINISHED
    assert_same_run(folder.path, uninterrupted_run(TINY))


@pytest.mark.slow
def test_resume_of_a_frozen_run_is_exact(tmp_path: Path):
    settings = FROZEN.replace(consensus=True)
    train(tmp_path / "uninterrupted", settings, make_colour_images())
    trainer = create_trainer(tmp_path / "run", settings, make_colour_images())
    for _ in range(5):
        trainer.train_step()
    trainer.save_checkpoint()
    train(tmp_path / "run", settings, make_colour_images())
    assert_same_run(tmp_path / "run", tmp_path / "uninterrupted")

    # After its last checkpoint, a run only writes its result again: it learns the consensus once.
    shutil.copytree(tmp_path / "uninterrupted", tmp_path / "at-the-end")
    train(tmp_path / "at-the-end", settings, make_colour_images())
    assert_same_run(tmp_path / "at-the-end", tmp_path / "uninterrupted")


@pytest.mark.slow
def test_consensus_changes_only_the_selected_subhead(tmp_path: Path):
    plain = train(tmp_path / "plain", FROZEN, make_colour_images())
    trainer = train(tmp_path / "consensus", FROZEN.replace(consensus=True), make_colour_images())
    assert trainer.subhead == plain.subhead
    for one, two in zip(plain.network.c_head.parameters(), trainer.network.c_head.parameters(), strict=True):
        changed = [not torch.equal(one[subhead], two[subhead]) for subhead in range(3)]
        assert changed == [subhead == plain.subhead for subhead in range(3)]


def test_resume_with_another_batch_size_is_refused(tmp_path: Path):
    trainer = create_trainer(tmp_path)
    trainer.train_step()
    trainer.save_checkpoint()
    with pytest.raises(UsageError, match=r"batch_size=32.* 16 now"):
        create_trainer(tmp_path, TINY.replace(batch_size=16))


def test_checkpoint_keys_are_those_of_earlier_versions(tmp_path: Path):
    trainer = create_trainer(tmp_path)
    trainer.train_step()
    trainer.save_checkpoint()
    assert torch.load(trainer.folder.checkpoint_file, weights_only=True).keys() == CHECKPOINT_KEYS
