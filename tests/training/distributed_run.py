"""A few steps of every form in double precision, alone or by torchrun: writes weights and losses to FILE."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from crlc.training.batches import LabelledImages
from crlc.training.distributed import Compute, joined_world
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Extras, Trainer
from tests.training.test_trainer import TINY, shapes

FORMS: dict[str, TrainSettings] = {
    "simclr": TINY,
    "memory-bank": replace(TINY, implementation="memory-bank", bank_negatives=64),
    "semi": replace(TINY, method="semi", labelled_batch=8),
    "two-stage": replace(TINY, method="two-stage", pairs="neighbours", neighbours=5, pretrain_epochs=1, epochs=5),
}
STEPS = 4  # the fourth is the first of the second stage


def steps(form: str, place: str, compute: Compute) -> dict[str, object]:
    """Train a little; the weights and losses."""
    labels = LabelledImages(np.arange(8), np.arange(8) % 4) if form == "semi" else None
    folder = RunFolder(Path(place, form))
    folder.path.mkdir(exist_ok=True)
    trainer = Trainer(shapes(), replace(FORMS[form], log_steps=1), folder, compute, extras=Extras(labels=labels))
    for _ in range(STEPS):
        trainer.train_step()
    compute.world.wait()
    losses = torch.tensor([record["loss"] for record in folder.metrics() if record["kind"] == "step"])
    return {"network": trainer.network.state_dict(), "losses": losses}


def main(file: str) -> None:
    torch.set_num_threads(1)
    with joined_world("cpu") as world, tempfile.TemporaryDirectory() as mine:
        place = world.told_by_first(lambda: mine)
        compute = Compute(torch.device("cpu"), world, torch.float64)
        outcome = {form: steps(form, place, compute) for form in FORMS}
        if world.is_writer:
            torch.save(outcome, file)
        world.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
