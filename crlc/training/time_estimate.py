"""Estimate of the duration of a run, from a few timed steps on this computer."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from crlc.runs.folder import RunFolder
from crlc.training.distributed import ComputeContext
from crlc.training.feature_cache import count_missing_features
from crlc.training.feature_engine import create_engine, measure_seconds_per_image
from crlc.training.images import TrainingImages, select_positions
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.run_length import count_trained_images
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage, plan_stages
from crlc.training.trainer import MAX_EVALUATED_IMAGES, Trainer

_WARM_UP_STEPS = 2
_TIMED_STEPS = 3
_NEVER = 1_000_000
"""More epochs or steps than the trial makes: it neither ends nor logs."""

_TIMED_IMAGES = 64

_FORWARD_COST_RATIO = 0.2
"""Cost of a forward pass relative to a training step: one view instead of two, and no gradient."""


def estimate_seconds(images: TrainingImages, settings: TrainSettings, device: torch.device) -> float:
    """Estimate the duration of a run in seconds: its stages, its evaluations, and features that are not cached yet."""
    total = sum(_estimate_stage_seconds(images, stage, device) for stage in plan_stages(settings))
    return total + (_estimate_feature_seconds(images, settings, device) if settings.model.frozen else 0.0)


def _estimate_stage_seconds(images: TrainingImages, stage: Stage, device: torch.device) -> float:
    """Estimate the duration of one stage in seconds.

    It is timed on a few images, because the duration of a step does not depend on the number of images.
    """
    settings = stage.settings.replace(pretrain_epochs=0, finetune_epochs=0, frozen=stage.uses_frozen_features)
    few = select_positions(
        images, images.list_clusterable()[: max(settings.data.batch_size, 2 * settings.model.clusters)]
    )
    trial_settings = settings.replace(epochs=_NEVER, evaluations=1, log_steps=_NEVER)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = RunFolder(Path(temporary, "trial"))
        folder.path.mkdir()
        trial = Trainer(few, trial_settings, folder, ComputeContext(device))
        for _ in range(_WARM_UP_STEPS):
            trial.train_step()
        _synchronize(device)
        started = time.perf_counter()
        for _ in range(_TIMED_STEPS):
            trial.train_step()
        _synchronize(device)
        per_step = (time.perf_counter() - started) / _TIMED_STEPS
    steps = max(1, count_trained_images(stage, images) // trial.length.batch_size)
    evaluated = min(1.0, MAX_EVALUATED_IMAGES / len(images))
    passes = min(settings.run.evaluations, settings.stages.epochs) * evaluated + 1
    return per_step * steps * (settings.stages.epochs + _FORWARD_COST_RATIO * passes)


def _estimate_feature_seconds(images: TrainingImages, settings: TrainSettings, device: torch.device) -> float:
    built = build_network(settings, len(images))
    missing = count_missing_features(images, built.identity)
    if not missing:
        return 0.0
    batch = images.sample_pixels(_TIMED_IMAGES)
    return time_features(built, batch, settings.run.engine, device) * missing


def time_features(built: BuiltNetwork, pixels: Tensor, engine: str, device: torch.device) -> float:
    """Return the seconds that the features of one image take on this computer.

    Args:
        built: the network and the identity of its weights.
        pixels: stored images to time, (B, H, W, 3).
        engine: engine that computes them; see `create_engine`.
        device: device of the network.
    """
    network, pixels = built.network.to(device).eval(), pixels.to(device)
    return measure_seconds_per_image(create_engine(engine, network, pixels[:2], built.identity), pixels)


def _synchronize(device: torch.device) -> None:
    """Wait until the device has finished, because GPU calls return before their work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    elif device.type == "mps":
        torch.mps.synchronize()
