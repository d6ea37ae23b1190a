"""A run as one or more stages: what each of them trains, on what, and against which pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from crlc.training.settings import NEIGHBOURS, VIEWS, TrainSettings


@dataclass(frozen=True)
class Stage:
    """One part of a run with an optimiser and a schedule of its own."""

    name: str
    """As people see it."""

    settings: TrainSettings
    """The run's, with this stage's own epochs, rates and weights."""

    on_features: bool = False
    """Whether the heads are trained on a frozen backbone's stored vectors."""

    finds_clusters: bool = True


def stages_of(settings: TrainSettings) -> tuple[Stage, ...]:
    """The stages of a run, in their order."""
    name = "clusters" if settings.pairs == NEIGHBOURS else "training"
    stages = [Stage(name, settings, on_features=settings.frozen)]
    if settings.pretrain_epochs:
        stages.insert(0, Stage("representation", _representation(settings), finds_clusters=False))
    if settings.finetune_epochs:
        stages.append(Stage("fine-tuning", _fine_tuning(settings)))
    return tuple(stages)


def _representation(settings: TrainSettings) -> TrainSettings:
    """L_FC alone."""
    return replace(
        settings,
        method="end-to-end",
        pairs=VIEWS,
        frozen=False,
        finetune_epochs=0,
        epochs=settings.pretrain_epochs,
        optimiser=settings.pretrain_optimiser,
        learning_rate=settings.pretrain_learning_rate,
        schedule="cosine",
        feature_weight=1.0,
        clustering_weight=0.0,
    )


def _fine_tuning(settings: TrainSettings) -> TrainSettings:
    """The whole network, gently."""
    return replace(
        settings, epochs=settings.finetune_epochs, learning_rate=settings.finetune_learning_rate, schedule="cosine"
    )
