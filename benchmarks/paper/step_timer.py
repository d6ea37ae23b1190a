"""Duration of runs on this computer, from training steps on random pixels: no data are needed."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.paper.data import count_images
from benchmarks.paper.runs import Setup, TrialRun
from crlc.data.whole_images import WholeImages
from crlc.runs.folder import RunFolder
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages
from crlc.training.run_length import plan_length
from crlc.training.settings import VIEWS, TrainSettings
from crlc.training.stages import Stage, plan_stages
from crlc.training.time_estimate import count_equivalent_steps
from crlc.training.trainer import Trainer

_SMALLEST_BATCH = 2
_GROWTH = 4
_MAX_STEP_SECONDS = 1.0
"""Longer steps are not timed on a CPU: their time is extrapolated from a smaller batch."""

_TIMED_STEPS = 2
_NEVER = 1_000_000
"""More epochs or steps than are timed: the trial neither ends nor logs."""


class StepTime(NamedTuple):
    """Duration of a step, or of a run."""

    seconds: float
    is_extrapolated: bool
    """Whether it was extrapolated from a smaller batch."""


@dataclass
class StepTimer:
    """Estimates the durations of runs; steps with equal networks, images and batches are timed once.

    The time to read and decode images is not included.
    """

    device: torch.device
    _timed: dict[tuple[object, ...], StepTime] = field(default_factory=dict)

    def estimate(self, run: TrialRun, setup: Setup) -> StepTime:
        """Return the duration of a run with its evaluations."""
        images = _describe_images(run, setup)
        settings = run.build_settings(setup)
        seconds, is_extrapolated = 0.0, False
        for stage in plan_stages(settings):
            batch_size = plan_length((stage,), images, stage.settings).batch_size
            step = self._time_cached(stage, batch_size)
            seconds += step.seconds * _count_relative_views(stage, batch_size) * count_equivalent_steps(images, stage)
            is_extrapolated |= step.is_extrapolated
        return StepTime(seconds, is_extrapolated)

    def _time_cached(self, stage: Stage, batch_size: int) -> StepTime:
        values = stage.settings.as_dict()
        names = ("backbone", "stem", "image_size", "view_source", "augment", "implementation", "subheads", "critic")
        key = (*(values[name] for name in names), stage.freezes_backbone, batch_size)
        if key not in self._timed:
            self._timed[key] = self._time(stage, batch_size)
        return self._timed[key]

    def _time(self, stage: Stage, batch_size: int) -> StepTime:
        if self.device.type != "cpu":
            return StepTime(time_step(stage, batch_size, self.device), is_extrapolated=False)
        timed = min(_SMALLEST_BATCH, batch_size)
        seconds = time_step(stage, timed, self.device)
        # Small batches are slower per image: the largest one that is fast enough is timed.
        while timed < batch_size and seconds * _GROWTH <= _MAX_STEP_SECONDS:
            timed = min(_GROWTH * timed, batch_size)
            seconds = time_step(stage, timed, self.device)
        return StepTime(seconds / timed * batch_size, is_extrapolated=timed < batch_size)


def time_step(stage: Stage, batch_size: int, device: torch.device) -> float:
    """Return the seconds of one step of a stage, on random pixels."""
    settings = _simplify(stage.settings, batch_size)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = RunFolder(Path(temporary, "trial"))
        folder.path.mkdir()
        # A memory bank needs as many images again, as negatives.
        images = _draw_images(2 * batch_size, settings.data.image_size)
        trial = Trainer(images, settings, folder, ComputeContext(device))
        trial.train_step()  # warm-up; it also prepares the stage
        trial.network.set_backbone_frozen(frozen=stage.freezes_backbone)
        seconds = []
        for _ in range(_TIMED_STEPS):
            started = time.perf_counter()
            trial.train_step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _simplify(settings: TrainSettings, batch_size: int) -> TrainSettings:
    """Return settings whose steps take equally long, but which need no weights, neighbours or labels."""
    return settings.replace(
        method="end-to-end",
        pairs=VIEWS,
        frozen=False,
        weights="",
        pretrain_epochs=0,
        finetune_epochs=0,
        epochs=_NEVER,
        evaluations=1,
        log_steps=_NEVER,
        clusterable_fraction=0.0,
        clusters=min(settings.model.clusters, 2 * batch_size),
        batch_size=batch_size,
        learning_rate=1e-6,  # random pixels must not make the loss infinite
    )


def _draw_images(count: int, size: int) -> TrainingImages:
    pixels = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    images = TrainingImages.from_array(pixels)

    def read_whole(ids: NDArray[np.int64], side: int) -> WholeImages:
        repeats = -(-side // size)
        whole = np.tile(pixels[ids - 1], (1, repeats, repeats, 1))[:, :side, :side]
        return WholeImages(np.ascontiguousarray(whole), np.ones(len(ids), np.float32))

    return TrainingImages(images.ids, size, images.read, read_whole=read_whole)


def _describe_images(run: TrialRun, setup: Setup) -> TrainingImages:
    """Return as many images as a run has, without pixels."""
    clusterable, unlabelled = count_images(run.trial.dataset, run.trial.split, setup.locations)

    def refuse(_: NDArray[np.int64]) -> NDArray[np.uint8]:
        raise AssertionError("only the number of these images is used")

    count = clusterable + unlabelled
    is_clusterable = np.arange(count) < clusterable if unlabelled else None
    return TrainingImages(np.arange(1, count + 1), 1, refuse, clusterable=is_clusterable)


def _count_relative_views(stage: Stage, batch_size: int) -> float:
    """Return the number of views of a step, with those of labelled images, relative to a step without labels."""
    if stage.settings.stages.method != "semi":
        return 1.0
    views = 2 * batch_size
    return (views + stage.settings.data.labelled_batch_size) / views
