"""Stages of a run, with the settings, inputs and steps of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crlc.training.settings import NEIGHBOURS, VIEWS, TrainSettings


@dataclass(frozen=True)
class Stage:
    """One part of a run with its own optimizer and learning-rate schedule."""

    name: str
    """Name on screen and in the metrics log."""

    settings: TrainSettings
    """Settings of the run with this stage's epochs, learning rate and loss weights."""

    uses_frozen_features: bool = False
    """Whether only the heads are trained, on stored features of a frozen backbone."""

    trains_c_head: bool = True

    @property
    def uses_pseudo_labels(self) -> bool:
        """Whether the loss has a term for pseudo-labels, where there are labels."""
        return self.uses_frozen_features and self.settings.clustering_loss.pseudo_label_weight > 0


@dataclass(frozen=True)
class StagePosition:
    """A stage and its steps in the run."""

    stage: Stage
    number: int
    """Index of the stage in the run, from 0."""

    first_step: int
    end_step: int
    """Index of the first step after the stage."""


def plan_stages(settings: TrainSettings) -> tuple[Stage, ...]:
    """Return the stages of a run in their order."""
    name = "clusters" if settings.pairing.pairs == NEIGHBOURS else "training"
    stages = [Stage(name, settings, uses_frozen_features=settings.model.frozen)]
    if settings.stages.pretrain_epochs:
        stages.insert(0, Stage("representation", _configure_representation(settings), trains_c_head=False))
    if settings.stages.finetune_epochs:
        stages.append(Stage("fine-tuning", _configure_fine_tuning(settings)))
    return tuple(stages)


def locate_stage(stages: Sequence[Stage], step: int, steps_per_epoch: int) -> StagePosition:
    """Return the stage that a step belongs to; the end of the run belongs to its last stage.

    Args:
        stages: all stages of the run.
        step: index of the step in the run, from 0.
        steps_per_epoch: number of steps in an epoch.
    """
    first_step = 0
    for number, stage in enumerate(stages):
        end_step = first_step + stage.settings.stages.epochs * steps_per_epoch
        if step < end_step or number == len(stages) - 1:
            return StagePosition(stage, number, first_step, end_step)
        first_step = end_step
    raise AssertionError("a run has at least one stage")


def _configure_representation(settings: TrainSettings) -> TrainSettings:
    """Return the settings of the first of two stages: L_FC (Eq. 5) alone."""
    return settings.replace(
        method="end-to-end",
        pairs=VIEWS,
        frozen=False,
        finetune_epochs=0,
        epochs=settings.stages.pretrain_epochs,
        optimizer=settings.stages.pretrain_optimizer,
        learning_rate=settings.stages.pretrain_learning_rate,
        schedule="cosine",
        feature_weight=1.0,
        clustering_weight=0.0,
    )


def _configure_fine_tuning(settings: TrainSettings) -> TrainSettings:
    """Return the settings of the stage that trains the backbone too, with a lower learning rate."""
    stages, feature_weight = settings.stages, settings.feature_loss.feature_weight
    return settings.replace(
        epochs=stages.finetune_epochs,
        learning_rate=stages.finetune_learning_rate,
        schedule="cosine",
        feature_weight=feature_weight if stages.finetune_feature_weight is None else stages.finetune_feature_weight,
    )
