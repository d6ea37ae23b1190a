"""How long a run will take, from a few timed steps of it on this computer."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from crlc.training.images import TrainingImages
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Trainer

_WARM_UP_STEPS = 2
_TIMED_STEPS = 3
_ENDLESS = 1_000_000


def estimated_seconds(images: TrainingImages, settings: TrainSettings, device: torch.device) -> float:
    """Seconds for the whole run. Nothing of the trial is kept."""
    with tempfile.TemporaryDirectory() as place:
        # So long a run that no step of the trial is followed by a look at the clusters.
        endless = replace(settings, epochs=_ENDLESS, evaluations=1, log_steps=_ENDLESS)
        folder = RunFolder(Path(place, "trial"))
        folder.path.mkdir()
        trial = Trainer(images, endless, folder, device)
        steps = settings.epochs * trial.steps_per_epoch
        for _ in range(_WARM_UP_STEPS):
            trial.train_step()
        started = time.perf_counter()
        for _ in range(_TIMED_STEPS):
            trial.train_step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - started) / _TIMED_STEPS * steps
