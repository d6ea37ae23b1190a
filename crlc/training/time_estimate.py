"""Estimate of the duration of a run, from a few timed steps on this computer and from earlier runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from crlc.runs.folder import RunFolder
from crlc.training.distributed import ComputeContext
from crlc.training.feature_cache import count_missing_features
from crlc.training.feature_engine import create_engine, measure_seconds_per_image
from crlc.training.images import TrainingImages, select_positions
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.run_length import plan_length
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage, plan_stages
from crlc.training.trainer import MAX_EVALUATED_IMAGES, Trainer

_WARM_UP_STEPS = 2
_TIMED_STEPS = 4
_NEVER = 1_000_000
"""More epochs or steps than the trial makes: it neither ends nor logs."""

_TIMED_IMAGES = 64

_FORWARD_COST_RATIO = 0.2
"""Cost of a forward pass relative to a training step: one view instead of two, and no gradient."""

StepKey = tuple[object, ...]
"""Identifies runs whose steps take equally long; see `make_step_key`."""


@dataclass(frozen=True)
class TimeRange:
    """A duration in seconds, as a range: on an idle computer, and beside the programs that run now."""

    low: float
    high: float

    @property
    def expected(self) -> float:
        """The geometric mean of both ends."""
        return float(np.sqrt(self.low * self.high))

    def __add__(self, other: TimeRange) -> TimeRange:
        """Return the duration of one after the other."""
        return TimeRange(self.low + other.low, self.high + other.high)

    def scale(self, factor: float) -> TimeRange:
        """Return the duration of `factor` repetitions."""
        return TimeRange(self.low * factor, self.high * factor)


NO_TIME = TimeRange(0.0, 0.0)


@dataclass(frozen=True)
class RunTime:
    """Estimated duration of a run."""

    training: TimeRange
    """All stages with their evaluations."""

    features: TimeRange
    """Features of a frozen backbone that are not cached yet."""

    @property
    def total(self) -> TimeRange:
        """Training and features together."""
        return self.training + self.features


@dataclass
class RunTimer:
    """Estimates the durations of runs; steps that differ only in the number of epochs are timed once.

    Presets that differ in length are therefore always in order, however noisy the computer is.
    """

    device: torch.device
    past_step_seconds: Mapping[StepKey, float] = field(default_factory=dict)
    """Seconds per step of earlier runs on this computer, with their evaluations."""

    _timed: dict[tuple[StepKey, str], TimeRange] = field(default_factory=dict)
    _feature_seconds: dict[str, TimeRange] = field(default_factory=dict)

    def estimate(self, images: TrainingImages, settings: TrainSettings) -> RunTime:
        """Estimate the duration of a run.

        Args:
            images: the training images, at the size that the settings require.
            settings: settings of the run.
        """
        stages = plan_stages(settings)
        training = NO_TIME
        for stage in stages:
            training += self._estimate_stage(images, stage)
        past = self.past_step_seconds.get(make_step_key(settings, self.device.type)) if len(stages) == 1 else None
        if past is not None:
            seconds = past * _count_epoch_steps(images, stages[0]) * settings.stages.epochs
            # An earlier run is one more measurement. It narrows the range: it lasted minutes, the timed steps seconds.
            likely = min(max(seconds, training.low), training.high)
            training = TimeRange((training.low * likely) ** 0.5, (training.high * likely) ** 0.5)
        features = self._estimate_features(images, settings) if stages[0].uses_frozen_features else NO_TIME
        return RunTime(training, features)

    def _estimate_stage(self, images: TrainingImages, stage: Stage) -> TimeRange:
        settings = stage.settings
        key = (make_step_key(settings, self.device.type), stage.name)
        if key not in self._timed:
            self._timed[key] = _time_step(images, stage, self.device)
        return self._timed[key].scale(count_equivalent_steps(images, stage))

    def _estimate_features(self, images: TrainingImages, settings: TrainSettings) -> TimeRange:
        built = build_network(settings, len(images))
        missing = count_missing_features(images, built.identity)
        if not missing:
            return NO_TIME
        if built.identity not in self._feature_seconds:
            seconds = time_features(built, images.sample_pixels(_TIMED_IMAGES), settings.run.engine, self.device)
            self._feature_seconds[built.identity] = TimeRange(seconds, seconds)
        return self._feature_seconds[built.identity].scale(missing)


def count_equivalent_steps(images: TrainingImages, stage: Stage) -> float:
    """Return the number of training steps that last as long as a stage with its evaluations.

    Args:
        images: the training images; their pixels are not read.
        stage: the stage.
    """
    settings = stage.settings
    evaluated = min(1.0, MAX_EVALUATED_IMAGES / len(images))
    passes = min(settings.run.evaluations, settings.stages.epochs) * evaluated + 1
    epochs = settings.stages.epochs + _FORWARD_COST_RATIO * passes
    return _count_epoch_steps(images, stage) * epochs


def make_step_key(settings: TrainSettings, device: str) -> StepKey:
    """Return the settings that the duration of a step depends on, with the type of the device."""
    values = settings.as_dict()
    names = (
        "method",
        "pairs",
        "backbone",
        "frozen",
        "stored_features",
        "stem",
        "image_size",
        "view_source",
        "batch_size",
        "clusters",
        "subheads",
        "hidden_width",
        "implementation",
        "critic",
        "augment",
        "feature_weight",
        "mixed_precision",
    )
    return (device, *(values[name] for name in names))


def _count_epoch_steps(images: TrainingImages, stage: Stage) -> int:
    return plan_length((stage,), images, stage.settings).stages[0].steps_per_epoch


def _time_step(images: TrainingImages, stage: Stage, device: torch.device) -> TimeRange:
    """Return the duration of one step of a stage.

    The lower end is the computing time divided by the number of threads: the duration if no other program ran. Steps
    are timed on a few images, because their duration does not depend on the number of images.
    """
    settings = stage.settings.replace(pretrain_epochs=0, finetune_epochs=0, frozen=stage.freezes_backbone)
    # A memory bank needs as many images again, as negatives.
    batches = 2 if settings.pairing.implementation == "memory-bank" else 1
    count = max(batches * settings.data.batch_size, 2 * settings.model.clusters)
    few = select_positions(images, images.list_clusterable()[:count])
    trial_settings = settings.replace(epochs=_NEVER, evaluations=1, log_steps=_NEVER)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = RunFolder(Path(temporary, "trial"))
        folder.path.mkdir()
        trial = Trainer(few, trial_settings, folder, ComputeContext(device))
        for _ in range(_WARM_UP_STEPS):
            trial.train_step()
        _synchronize(device)
        seconds, computing = [], []
        for _ in range(_TIMED_STEPS):
            started, started_computing = time.perf_counter(), time.process_time()
            trial.train_step()
            _synchronize(device)
            seconds.append(time.perf_counter() - started)
            computing.append(time.process_time() - started_computing)
    high = float(np.median(seconds))
    if device.type != "cpu":
        return TimeRange(min(seconds), high)
    return TimeRange(min(high, min(computing) / torch.get_num_threads()), high)


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
