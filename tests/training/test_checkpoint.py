"""Tests of checkpoints: writing to a full disk, and damaged files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from crlc.errors import CrlcError, DamagedError, DiskFullError
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.checkpoint import save_checkpoint, write_tensors
from crlc.training.model_file import load_run_model
from crlc.training.run_logger import ProgressListener, TrainProgress
from tests.fixtures.training_runs import CPU, TINY, create_trainer

_WRONG_VALUES = [None, "x", -1, 2**70, [], {}, {"x": 1}, torch.zeros(2), {"x": torch.zeros(2)}]


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


def test_trainer_explains_a_disk_that_does_not_answer_in_its_status(tmp_path: Path):
    def fail(_: TrainProgress) -> None:
        raise OSError(errno.EIO, "Input/output error", "last.pt")

    trainer = create_trainer(tmp_path / "run", TINY.replace(epochs=1), listener=ProgressListener(fail))
    with pytest.raises(OSError, match="Input/output error"):
        trainer.run()
    assert "last.pt cannot be used at the moment" in trainer.folder.read_status().message


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the checkpoint of a run after one step."""
    trainer = create_trainer(tmp_path_factory.mktemp("checkpoint"))
    trainer.train_step()
    trainer.save_checkpoint()
    return trainer.folder.checkpoint_file


def resume_one_step(folder: Path) -> None:
    """Resume the run with the checkpoint in a folder, and load its model."""
    load_run_model(RunFolder(folder), CPU.device)
    create_trainer(folder).train_step()


@pytest.mark.parametrize(
    "name",
    ["settings", "batch_size", "step", "network", "stage", "optimiser", "totals", "scaler", "subhead"],
)
def test_checkpoint_with_a_missing_or_wrong_entry_is_reported(checkpoint: Path, tmp_path: Path, name: str):
    content = torch.load(checkpoint, weights_only=True)
    without = {key: value for key, value in content.items() if key != name}
    wrong = [without, *({**content, name: value} for value in _WRONG_VALUES if type(value) is not type(content[name]))]
    for number, changed in enumerate(wrong):
        folder = tmp_path / str(number)
        (folder / "checkpoints").mkdir(parents=True)
        torch.save(changed, folder / "checkpoints" / "last.pt")
        with pytest.raises(CrlcError, match=r"last\.pt"):
            resume_one_step(folder)


@pytest.mark.parametrize("name", ["network", "optimiser", "totals"])
@pytest.mark.parametrize("value", [{"x": torch.zeros(2)}, {"x": {}}])
def test_checkpoint_of_another_network_is_reported(checkpoint: Path, tmp_path: Path, name: str, value: object):
    (tmp_path / "checkpoints").mkdir()
    torch.save({**torch.load(checkpoint, weights_only=True), name: value}, tmp_path / "checkpoints" / "last.pt")
    with pytest.raises(DamagedError, match=r"last\.pt is damaged"):
        resume_one_step(tmp_path)


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.3, 0.5, 0.9, 0.99])
def test_checkpoint_with_changed_bytes_is_reported(checkpoint: Path, tmp_path: Path, fraction: float):
    content = bytearray(checkpoint.read_bytes())
    position = int(fraction * len(content))
    content[position : position + 200] = bytes(byte ^ 0xFF for byte in content[position : position + 200])
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.pt").write_bytes(content)
    with pytest.raises(CrlcError):
        resume_one_step(tmp_path)
