"""How long a run will take, from a few timed steps of it on this computer."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, at_positions
from crlc.training.materials import build_network
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage, stages_of
from crlc.training.trainer import Trainer

_WARM_UP_STEPS = 2
_TIMED_STEPS = 3
_ENDLESS = 1_000_000
_TIMED_IMAGES = 64
_FORWARD_SHARE = 0.2
"""A look at an image costs about this share of a training step on it: one view of two, and no gradient."""


def estimated_seconds(images: TrainingImages, settings: TrainSettings, device: torch.device) -> float:
    """Seconds for the whole run: its stages, the looks at the clusters, and features that are not kept yet."""
    total = sum(_stage_seconds(images, stage, device) for stage in stages_of(settings))
    return total + (_feature_seconds(images, settings, device) if settings.frozen else 0.0)


def _stage_seconds(images: TrainingImages, stage: Stage, device: torch.device) -> float:
    """One stage alone, timed on few images: the time of a step does not depend on how many there are."""
    settings = replace(stage.settings, pretrain_epochs=0, finetune_epochs=0, frozen=stage.on_features)
    usable = np.arange(len(images)) if images.clusterable is None else np.flatnonzero(images.clusterable)
    few = at_positions(images, usable[: max(settings.batch_size, 2 * settings.clusters)])
    alone = replace(settings, epochs=_ENDLESS, evaluations=1, log_steps=_ENDLESS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = RunFolder(Path(place, "trial"))
        folder.path.mkdir()
        trial = Trainer(few, alone, folder, Compute(device))
        for _ in range(_WARM_UP_STEPS):
            trial.train_step()
        _wait_for(device)
        started = time.perf_counter()
        for _ in range(_TIMED_STEPS):
            trial.train_step()
        _wait_for(device)
        per_step = (time.perf_counter() - started) / _TIMED_STEPS
    steps = max(1, len(images) // trial.length.batch_size)
    looks = min(settings.evaluations, settings.epochs) * min(1.0, 10_000 / len(images)) + 1
    return per_step * steps * (settings.epochs + _FORWARD_SHARE * looks)


def _feature_seconds(images: TrainingImages, settings: TrainSettings, device: torch.device) -> float:
    from crlc.training.features import FeatureCache, keys_of

    built = build_network(settings, len(images))
    missing = len(images)
    if images.features is not None:
        cache = FeatureCache(images.features / f"{built.identity}-{images.size}")
        missing = int((~cache.has(keys_of(images))).sum())
    if not missing:
        return 0.0
    network = built.network.to(device).eval()
    batch = images.sample(_TIMED_IMAGES).to(device)
    with torch.inference_mode():
        to_vectors = network.fast_backbone(batch[:2])
        to_vectors(batch)
        _wait_for(device)
        started = time.perf_counter()
        to_vectors(batch)
        _wait_for(device)
    return (time.perf_counter() - started) / len(batch) * missing


def _wait_for(device: torch.device) -> None:
    """A GPU works on after a call has returned."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif device.type == "mps":
        torch.mps.synchronize()
