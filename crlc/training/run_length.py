"""Length of a run: batch size, and the epochs and steps of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crlc.training.images import TrainingImages
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage


@dataclass(frozen=True)
class StageLength:
    """Number of epochs of a stage, and of steps in each of them."""

    epochs: int
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """Number of steps of all epochs."""
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class StagePosition:
    """A stage and its steps in the run."""

    stage: Stage
    number: int
    """Index of the stage in the run, from 0."""

    first_step: int
    end_step: int
    """Index of the first step after the stage."""

    first_epoch: int
    """Index of the stage's first epoch in the run, from 0."""

    steps_per_epoch: int


@dataclass(frozen=True)
class RunLength:
    """Length of a run in steps and epochs."""

    batch_size: int
    stages: tuple[StageLength, ...]

    @property
    def epochs(self) -> int:
        """Number of epochs of all stages."""
        return sum(stage.epochs for stage in self.stages)

    @property
    def steps(self) -> int:
        """Number of steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    def count_epochs(self, step: int) -> int:
        """Return the number of complete epochs after a number of steps."""
        epochs = 0
        for stage in self.stages:
            if step < stage.steps:
                return epochs + step // stage.steps_per_epoch
            epochs, step = epochs + stage.epochs, step - stage.steps
        return epochs

    def is_epoch_end(self, step: int) -> bool:
        """Return whether an epoch ends with this number of steps."""
        return self.count_epochs(step) > self.count_epochs(step - 1)

    def locate_stage(self, stages: Sequence[Stage], step: int) -> StagePosition:
        """Return the stage that a step belongs to; the end of the run belongs to its last stage.

        Args:
            stages: all stages of the run, as many as this length has.
            step: index of the step in the run, from 0.
        """
        first_step = first_epoch = 0
        for number, (stage, length) in enumerate(zip(stages, self.stages, strict=True)):
            end_step = first_step + length.steps
            if step < end_step or number == len(stages) - 1:
                return StagePosition(stage, number, first_step, end_step, first_epoch, length.steps_per_epoch)
            first_step, first_epoch = end_step, first_epoch + length.epochs
        raise AssertionError("a run has at least one stage")


def plan_length(
    stages: Sequence[Stage], images: TrainingImages, settings: TrainSettings, processes: int = 1
) -> RunLength:
    """Return the length of a run; batches are a multiple of the number of processes.

    Args:
        stages: all stages of the run.
        images: the images of the run.
        settings: settings of the run.
        processes: number of processes that share a batch.
    """
    available = count_batch_images(stages, images, settings)
    batch_size = max(processes, min(settings.data.batch_size, available) // processes * processes)
    return RunLength(
        batch_size,
        tuple(
            StageLength(stage.settings.stages.epochs, max(1, count_trained_images(stage, images) // batch_size))
            for stage in stages
        ),
    )


def count_batch_images(stages: Sequence[Stage], images: TrainingImages, settings: TrainSettings) -> int:
    """Return the largest possible number of images in a batch."""
    fewest = min(count_trained_images(stage, images) for stage in stages)
    if settings.pairing.implementation == "memory-bank":
        return -(-fewest // 2)  # the negatives are rows of images outside the batch
    return fewest


def count_trained_images(stage: Stage, images: TrainingImages) -> int:
    """Return the number of images that a stage trains on: all, or only those that L_cluster is computed for."""
    return len(images.list_clusterable()) if stage.trains_clusterable_only else len(images)
