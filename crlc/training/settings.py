"""Settings of a run: a frozen dataclass of groups; each field has a range, a description and the paper's value.

Field names are unique across the groups, so that the name alone is enough on a command line and in files.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_type_hints

from crlc.errors import UsageError
from crlc.validation import FieldInfo, Validated, choice, describe_fields, get_fields, number, text

IMPLEMENTATIONS = ("simclr", "memory-bank")
CRITIC_NAMES = ("log-dot", "dot", "neg-l2", "neg-js")
METHODS = ("end-to-end", "two-stage", "semi")
PAIRS = (VIEWS, NEIGHBOURS) = ("views", "neighbours")
SCRATCH_NAMES = ("small", "resnet18", "resnet34", "resnet50")
DEFAULT_BACKBONE = "default"
ENGINES = ("auto", "torch", "openvino")
"""Engines that compute the features of a frozen backbone; `auto` is OpenVINO on CPUs where possible, else torch."""

AUGMENTATIONS = ("auto", "photo", "photo-blur", "glyph", "none")
OPTIMIZERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "cooldown")


@dataclass(frozen=True)
class ModelSettings(Validated):
    """The network: number of clusters, backbone and heads."""

    clusters: int = number(10, 2, 100_000)
    """Number of clusters C, at least 2."""

    subheads: int = number(10, 1, 1000)
    """Number of C-subheads; the clustering loss is their mean. Paper: 10."""

    backbone: str = text("small", suggestions=(*SCRATCH_NAMES, DEFAULT_BACKBONE))
    """small, resnet18, resnet34, resnet50; pretrained: default, torchvision/NAME, timm/NAME. Paper: resnet34."""

    weights: str = text("")
    """File with weights for a ResNet (torchvision, timm or MoCo); empty for none. Paper: MoCo on ImageNet50+."""

    frozen: bool = False
    """Whether the backbone stays untrained; its features are then computed once and cached. Paper: on ImageNet50+."""

    pca_components: int = number(256, 0, 100_000, json_name="components")
    """Principal components of a frozen backbone's features that the heads receive, fewer if there are fewer images;
    0 for the features without PCA. Paper: without PCA."""

    hidden_width: int = number(0, 0, 100_000, json_name="hidden")
    """Width of the heads' hidden layers; 0 for the width of their input. Paper: the width of their input."""


@dataclass(frozen=True)
class PairSettings(Validated):
    """Positive pairs and negatives of both contrastive losses."""

    pairs: str = choice(VIEWS, PAIRS)
    """Positive pairs: two views of an image, or views of an image and one of its neighbours. Paper: views end to end,
    neighbours in the second of two stages."""

    neighbours: int = number(20, 1, 10_000)
    """Number K of nearest images from which the neighbour of a positive pair is drawn. Paper: 50."""

    implementation: str = choice("simclr", IMPLEMENTATIONS)
    """simclr (two views, negatives from the batch) or memory-bank (one view, negatives from a bank, Eq. 10)."""

    bank_negatives: int = number(4096, 1, 10_000_000)
    """Number M of negatives drawn from the memory bank. Paper: 4096."""

    bank_momentum: float = number(0.5, 0.0, 0.9999)
    """Weight α of the old value when a row of the memory bank is updated (Eq. 10). Paper: 0.5."""


@dataclass(frozen=True)
class ClusteringLossSettings(Validated):
    """The loss of the C-head: probability contrastive loss (Eq. 9), entropy and labels (Eq. 12)."""

    clustering_weight: float = number(1.0, 0.0, 1000.0)
    """Weight of the C-head's loss; 0 trains the RL-head alone, for comparison. Paper: 1."""

    critic: str = choice("log-dot", CRITIC_NAMES)
    """Critic that compares two probability vectors: log-dot, dot, neg-l2 or neg-js. Paper: log-dot."""

    smoothing: float = number(0.01, 0.0, 0.5)
    """Weight γ of the uniform distribution that is mixed into the probabilities before the critic. Paper: 0.01."""

    entropy_weight: float = number(1.0, -0.9, 1000.0)
    """Weight λ1 of the entropy of the mean probabilities. Paper: 1; authors' code: 2. L_PC itself favours clusters of
    equal size, with weight 1: lower λ1 for unbalanced data, even below 0. At -1 nothing would prevent a single
    cluster."""

    unbalanced_subheads: int = number(0, 0, 1000, json_name="uneven_subheads")
    """Number of subheads, at most half of them, trained with another λ1 to find clusters of different sizes; one of
    them is selected only if its neighbour information is clearly higher. Only for pairs of neighbours. Paper: 0."""

    unbalanced_entropy_weight: float = number(0.0, -0.9, 1000.0)
    """λ1 of the unbalanced subheads. Below 0 they no longer favour clusters of equal size, as L_PC itself does."""

    consensus: bool = False
    """Whether the selected subhead finally learns the mean of all subheads with the same λ1. Only for pairs of
    neighbours on a frozen backbone, without labels. Paper: no."""

    label_weight: float = number(1.0, 0.0, 1000.0)
    """Weight λ3 of the cross-entropy on labelled images in CRLC-semi (Eq. 12). Paper: 1."""

    pseudo_label_weight: float = number(0.0, 0.0, 1000.0)
    """Weight of the cross-entropy on pseudo-labels of all images, relative to λ3. Only for CRLC-semi on a frozen
    backbone. Paper: 0."""


@dataclass(frozen=True)
class FeatureLossSettings(Validated):
    """The loss of the RL-head: feature contrastive loss (Eq. 5)."""

    feature_weight: float = number(10.0, 0.0, 1000.0)
    """Weight λ2 of the feature contrastive loss; 0 trains the C-head alone. Paper: 10."""

    temperature: float = number(0.1, 0.001, 100.0)
    """Temperature τ of the feature critic (Eq. 4). Paper: 0.1."""


@dataclass(frozen=True)
class StageSettings(Validated):
    """The training method, and the length and learning rate of its stages."""

    method: str = choice("end-to-end", METHODS)
    """end-to-end; two-stage (representation first, then clusters of neighbours); semi (a parent run and labels)."""

    epochs: int = number(60, 1, 1_000_000)
    """Number of passes over the images. Paper: 2000; 500 on ImageNet10 and ImageNet-Dogs; 200 in the second stage."""

    pretrain_epochs: int = number(0, 0, 1_000_000)
    """Epochs of the first stage, L_FC alone; 0 for none, as with pretrained weights. Paper: 500."""

    pretrain_optimizer: str = choice("adamw", OPTIMIZERS, json_name="pretrain_optimiser")
    """Optimizer of the first stage, sgd or adamw. Paper: sgd."""

    pretrain_learning_rate: float = number(3e-3, 0.0, 100.0)
    """Highest learning rate of the first stage, which follows a cosine. Paper: 0.4 with sgd."""

    finetune_epochs: int = number(0, 0, 1_000_000)
    """Epochs in which a frozen backbone is trained after its heads; 0 for none. Paper: none."""

    finetune_learning_rate: float = number(1e-4, 0.0, 100.0)
    """Highest learning rate of fine-tuning, which follows a cosine."""

    @property
    def total_epochs(self) -> int:
        """Number of epochs of all stages."""
        return self.pretrain_epochs + self.epochs + self.finetune_epochs


@dataclass(frozen=True)
class OptimizationSettings(Validated):
    """The optimizer and its learning rate schedule."""

    optimizer: str = choice("adamw", OPTIMIZERS, json_name="optimiser")
    """sgd or adamw. Paper: sgd."""

    learning_rate: float = number(3e-3, 0.0, 100.0)
    """Highest learning rate. Paper: 0.1 with sgd."""

    schedule: str = choice("constant", SCHEDULES)
    """constant, cosine (down to the final fraction), or cooldown (linearly to 0 in the last fifth). Paper: constant;
    cosine in CRLC-semi."""

    final_rate_fraction: float = number(0.0, 0.0, 1.0, json_name="last_share")
    """Fraction of the highest learning rate at which a cosine ends. Paper: 0.01 in CRLC-semi."""

    warmup_epochs: float = number(0.0, 0.0, 1_000_000.0)
    """Epochs over which the learning rate rises linearly from zero. Paper: 0."""

    momentum: float = number(0.9, 0.0, 0.9999)
    """Momentum of sgd. Paper: 0.9, no Nesterov."""

    weight_decay: float = number(5e-4, 0.0, 10.0)
    """Weight decay, not on biases and norms (authors' code). Paper: 5e-4."""

    clip_norm: float = number(0.0, 0.0, 1_000_000.0)
    """Maximum gradient norm (gradient clipping); 0 for no limit. Paper: no limit."""


@dataclass(frozen=True)
class DataSettings(Validated):
    """Image size, batch sizes and augmentation."""

    image_size: int = number(32, 8, 1024)
    """Side of the images in pixels. Paper: 32 for CIFAR, 96 for STL10."""

    batch_size: int = number(256, 2, 1_000_000)
    """Images per step; at most the number of images. Paper: 512."""

    labelled_batch_size: int = number(64, 1, 1_000_000, json_name="labelled_batch")
    """Labelled images per step of CRLC-semi, repeated when there are fewer. Paper: 64."""

    augment: str = choice("auto", AUGMENTATIONS)
    """Augmentation: photo (crop, flip, colour), photo-blur, glyph (rotation, shear, scale), none, or auto to choose
    by the images."""

    feature_dropout: float = number(0.0, 0.0, 0.9, json_name="dropout")
    """Fraction of a frozen backbone's components that each view drops. Paper: 0."""


@dataclass(frozen=True)
class RunSettings(Validated):
    """Random seed, and how often a run is logged, evaluated and saved."""

    seed: int = number(0, 0, 2**62)
    """Seed of initial weights, order, views and negatives."""

    log_steps: int = number(10, 1, 1_000_000)
    """Number of steps between two step records of the metrics log."""

    evaluations: int = number(20, 1, 1_000_000)
    """Number of evaluations during the run, each with an intermediate result."""

    checkpoint_seconds: float = number(30.0, 0.0, 1_000_000.0)
    """Seconds between checkpoints; one more is written at the end."""

    engine: str = choice("auto", ENGINES)
    """Engine that computes the features of a frozen backbone: torch, or openvino, which is several times as fast on a
    CPU; auto uses openvino on a CPU where it can."""


@dataclass(frozen=True)
class TrainSettings:
    """Settings of a run, in groups."""

    model: ModelSettings = ModelSettings()
    pairing: PairSettings = PairSettings()
    clustering_loss: ClusteringLossSettings = ClusteringLossSettings()
    feature_loss: FeatureLossSettings = FeatureLossSettings()
    stages: StageSettings = StageSettings()
    optimization: OptimizationSettings = OptimizationSettings()
    data: DataSettings = DataSettings()
    run: RunSettings = RunSettings()

    def __post_init__(self) -> None:
        """Check that the groups are consistent; each group has checked its own fields.

        Raises:
            UsageError: naming the inconsistent fields.
        """
        model, stages, pairing = self.model, self.stages, self.pairing
        _check_backbone(model)
        expected = {"end-to-end": VIEWS, "two-stage": NEIGHBOURS}.get(stages.method, pairing.pairs)
        if pairing.pairs != expected:
            raise UsageError(
                f"pairs={pairing.pairs!r} is not allowed with method={stages.method!r}: it must be {expected}."
            )
        if pairing.implementation == "memory-bank" and pairing.pairs == NEIGHBOURS:
            raise UsageError(
                "implementation='memory-bank' is not allowed with pairs='neighbours': choose implementation=simclr, "
                "or method=end-to-end."
            )
        if model.frozen and pairing.pairs == VIEWS:
            raise UsageError("frozen=True is not allowed with pairs='views': choose method=two-stage.")
        if model.frozen and stages.pretrain_epochs:
            raise UsageError(
                f"pretrain_epochs={stages.pretrain_epochs} is not allowed with frozen=True: "
                "a frozen backbone is not trained in a first stage."
            )
        if stages.finetune_epochs and not model.frozen:
            raise UsageError(
                f"finetune_epochs={stages.finetune_epochs} is not allowed with frozen=False: "
                "the backbone is trained in every epoch."
            )

    @property
    def effective_unbalanced_subheads(self) -> int:
        """Number of subheads that are trained with another λ1: none for pairs of views, at most half of all."""
        if self.pairing.pairs != NEIGHBOURS:
            return 0
        return min(self.clustering_loss.unbalanced_subheads, self.model.subheads // 2)

    def replace(self, **values: Any) -> TrainSettings:
        """Return a copy with some fields changed, given by field name.

        Raises:
            UsageError: a name is not known, or a value is not allowed.
        """
        changes: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group, field_name = find_setting(name)
            changes.setdefault(group, {})[field_name] = value
        groups = {group: dataclasses.replace(getattr(self, group), **own) for group, own in changes.items()}
        return dataclasses.replace(self, **groups)

    def with_overrides(self, assignments: Iterable[str]) -> TrainSettings:
        """Return a copy with some fields changed, given as `name=value` or `group.name=value`.

        Raises:
            UsageError: a name is unknown (the error suggests the most similar one), or a value is of the wrong type.
        """
        values: dict[str, Any] = {}
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            group, field_name = find_setting(name)
            if not equals:
                raise UsageError(f"{assignment!r} is not allowed: it must be written as {field_name}=value.")
            values[field_name] = get_fields(GROUPS[group])[field_name].parse(value)
        return self.replace(**values)

    def as_dict(self) -> dict[str, Any]:
        """Return all values by field name, without groups."""
        return {name: value for group in GROUPS for name, value in vars(getattr(self, group)).items()}

    def to_json(self) -> dict[str, Any]:
        """Return the content for run.json: one flat dictionary with the names that earlier versions wrote."""
        return {
            info.json_name: getattr(getattr(self, group), name)
            for group, kind in GROUPS.items()
            for name, info in get_fields(kind).items()
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TrainSettings:
        """Create settings from run.json; unknown names are ignored, and missing ones get their defaults."""
        return cls().replace(**{name: value for name, value in content.items() if name in _LOCATIONS})


GROUPS: dict[str, type[Validated]] = get_type_hints(TrainSettings)
"""The group classes by the name of their group."""


def describe_settings() -> dict[str, dict[str, FieldInfo]]:
    """Return the declarations of all fields with their help texts, by group and field name."""
    return {group: describe_fields(kind) for group, kind in GROUPS.items()}


def find_setting(name: str) -> tuple[str, str]:
    """Return the group and the field name of a setting.

    Args:
        name: a field name, `group.name`, or the name in files (`optimiser` for `optimizer`).

    Raises:
        UsageError: there is no such setting; the error suggests the most similar one.
    """
    group, _, field_name = name.rpartition(".")
    found = _LOCATIONS.get(field_name)
    if found is not None and group in ("", found[0]):
        return found
    if found is None:
        near = difflib.get_close_matches(field_name, SETTING_NAMES, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(SETTING_NAMES)}."
    else:
        advice = f"Did you mean {'.'.join(found)}?"
    raise UsageError(f"{name!r} is not a setting.", advice=advice)


def is_known_backbone(name: str) -> bool:
    """Return whether a name has the form of a backbone name; the library may still not have that backbone."""
    return name in (*SCRATCH_NAMES, DEFAULT_BACKBONE) or name.startswith(("torchvision/", "timm/"))


def _check_backbone(model: ModelSettings) -> None:
    if not is_known_backbone(model.backbone):
        near = difflib.get_close_matches(model.backbone, (*SCRATCH_NAMES, DEFAULT_BACKBONE), n=1)
        advice = f"Did you mean {near[0]}?" if near else f"A pretrained backbone is written as timm/{model.backbone}."
        raise UsageError(f"backbone={model.backbone!r} is not known.", advice=advice)
    if model.frozen and model.backbone in SCRATCH_NAMES and not model.weights:
        raise UsageError(
            f"frozen=True is not allowed with backbone={model.backbone!r}: it is not pretrained.",
            advice="Choose backbone=default, or give weights.",
        )


_LOCATIONS: dict[str, tuple[str, str]] = {
    known: (group, name)
    for group, kind in GROUPS.items()
    for name, info in get_fields(kind).items()
    for known in (info.json_name, name)
}
"""Group and field name, by field name and by name in files."""

SETTING_NAMES = tuple(name for kind in GROUPS.values() for name in get_fields(kind))
