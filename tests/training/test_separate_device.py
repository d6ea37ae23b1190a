"""Training on a device with its own memory: no tensor is on the wrong device, and the results are those of the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crlc.runs.folder import RunFolder
from crlc.training.batches import LabelTargets
from crlc.training.distributed import ComputeContext
from crlc.training.trainer import OptionalInputs, Trainer
from tests.fixtures.separate_device import simulate_device
from tests.fixtures.training_runs import (
    FROZEN,
    MEMORY_BANK,
    TINY,
    TWO_STAGE,
    make_colour_images,
    make_shape_images,
    read_records,
)


def test_simulated_device_refuses_tensors_of_the_cpu(monkeypatch: pytest.MonkeyPatch):
    with simulate_device(monkeypatch) as device:
        here, elsewhere = torch.ones(2, 3, device=device), torch.ones(3)
        assert float((here * 2).sum()) == 12
        assert (here + torch.tensor(1.0)).device.type == device.type
        assert here.cpu().numpy().shape == (2, 3)
        with pytest.raises(RuntimeError, match="two devices"):
            here * elsewhere
        with pytest.raises(RuntimeError, match="two devices"):
            torch.cat([elsewhere, here[0]])
        with pytest.raises(RuntimeError, match="numpy"):
            here.numpy()
        weight = torch.ones(3, device=device, requires_grad=True)
        torch.autograd.backward((here @ weight).sum())
        assert weight.grad.cpu().tolist() == [2, 2, 2]


RUNS = {
    "simclr": TINY.replace(epochs=2, augment="photo-blur"),
    "memory-bank": MEMORY_BANK.replace(epochs=2),
    "two-stage": TWO_STAGE.replace(epochs=1, pretrain_epochs=1),
    "frozen": FROZEN.replace(epochs=2, unbalanced_subheads=1, finetune_epochs=1),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")  # the simulated tensors do copy
@pytest.mark.parametrize("name", RUNS)
def test_training_on_another_device_equals_that_on_the_cpu(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    images = make_colour_images() if name == "frozen" else make_shape_images()
    labels = LabelTargets(np.arange(6), np.arange(6) % RUNS[name].model.clusters)
    clusterable = np.arange(len(images)) % 8 != 7
    if name == "memory-bank":
        images = replace(images, clusterable=clusterable)

    def create(folder: str, device: torch.device) -> Trainer:
        (tmp_path / folder).mkdir(exist_ok=True)
        optional = OptionalInputs(labels=labels)
        settings = RUNS[name].replace(log_steps=1, evaluations=1)
        return Trainer(images, settings, RunFolder(tmp_path / folder), ComputeContext(device), optional_inputs=optional)

    create("cpu", torch.device("cpu")).run()
    with simulate_device(monkeypatch) as device:
        interrupted = create("other", device)
        for _ in range(2):
            interrupted.train_step()
        interrupted.save_checkpoint()
        create("other", device).run()
    expected, found = read_records(tmp_path / "cpu"), read_records(tmp_path / "other")
    assert [(record["kind"], record["step"]) for record in found] == [
        (record["kind"], record["step"]) for record in expected
    ]
    # Other kernels round differently, which grows with the steps. Of frozen features, principal components with close
    # eigenvalues also turn, so that the first heads see other inputs.
    first, other = (next(record for record in records if record["kind"] == "step") for records in (expected, found))
    assert other["loss"] == pytest.approx(first["loss"], rel=0.05 if name == "frozen" else 1e-4)
