"""Tests of checkpoints: writing to a full disk, and damaged files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from crlc.errors import DiskFullError
from crlc.runs.state import RunState
from crlc.training.checkpoint import save_checkpoint, write_tensors
from crlc.training.run_logger import ProgressListener, TrainProgress
from tests.fixtures.training_runs import TINY, create_trainer


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("buffering", [0, -1])
def test_write_tensors_raises_the_error_of_a_full_disk(buffering: int):
    with pytest.raises(OSError, match="No space left") as raised, open("/dev/full", "wb", buffering) as stream:
        write_tensors({"weights": torch.zeros(100_000)}, stream)
    assert raised.value.errno == errno.ENOSPC


def test_save_checkpoint_on_a_full_disk_keeps_the_previous_one(small_disk: Path):
    save_checkpoint(small_disk / "last.pt", {"weights": torch.ones(10)})
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(small_disk / "last.pt", {"weights": torch.zeros(1_000_000)})
    assert [file.name for file in small_disk.iterdir()] == ["last.pt"]
    assert torch.load(small_disk / "last.pt", weights_only=True)["weights"].sum() == 10


def test_trainer_explains_a_full_disk_in_its_error_and_its_status(small_disk: Path):
    filler = small_disk / "filler"

    def fill_disk(progress: TrainProgress) -> None:
        if progress.step == 2:
            # Enough for the status, not for the checkpoint.
            filler.write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096 - 64 * 1024))

    trainer = create_trainer(
        small_disk / "run", TINY.replace(checkpoint_seconds=0.0, epochs=1), listener=ProgressListener(fill_disk)
    )
    with pytest.raises(DiskFullError, match="is full"):
        trainer.run()
    status = trainer.folder.read_status()
    assert status.state is RunState.FAILED
    assert "Free some space" in status.message
