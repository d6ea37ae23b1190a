"""Stages of a run, with the settings and inputs of each. Their steps are in `run_length`."""

from __future__ import annotations

from dataclasses import dataclass

from crlc.training.settings import NEIGHBOURS, VIEWS, TrainSettings


@dataclass(frozen=True)
class Stage:
    """One part of a run with its own optimizer and learning-rate schedule."""

    name: str
    """Name on screen and in the metrics log."""

    settings: TrainSettings
    """Settings of the run with this stage's epochs, learning rate and loss weights."""

    freezes_backbone: bool = False
    """Whether only the heads are trained."""

    trains_c_head: bool = True

    @property
    def uses_frozen_features(self) -> bool:
        """Whether the heads are trained on stored features of a frozen backbone."""
        return self.freezes_backbone and self.settings.model.stored_features

    @property
    def trains_clusterable_only(self) -> bool:
        """Whether the stage trains only on images that L_cluster is computed for.

        It does with pairs of neighbours, which are sought among these images, and without L_FC, which alone has a use
        for the others.
        """
        return self.settings.pairing.pairs == NEIGHBOURS or not self.settings.feature_loss.feature_weight

    @property
    def uses_pseudo_labels(self) -> bool:
        """Whether the loss has a term for pseudo-labels, where there are labels."""
        return self.uses_frozen_features and self.settings.clustering_loss.pseudo_label_weight > 0


def plan_stages(settings: TrainSettings) -> tuple[Stage, ...]:
    """Return the stages of a run in their order."""
    name = "clusters" if settings.pairing.pairs == NEIGHBOURS else "training"
    stages = [Stage(name, settings, freezes_backbone=settings.model.frozen)]
    if settings.stages.pretrain_epochs:
        stages.insert(0, Stage("representation", _configure_representation(settings), trains_c_head=False))
    if settings.stages.finetune_epochs:
        stages.append(Stage("fine-tuning", _configure_fine_tuning(settings)))
    return tuple(stages)


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
        clusterable_fraction=0.0,
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
