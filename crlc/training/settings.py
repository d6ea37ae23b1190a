"""Everything that decides a run, in one frozen dataclass: each field with its meaning and the paper's value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from crlc.errors import UsageError

IMPLEMENTATIONS = ("simclr", "memory-bank")
CRITIC_NAMES = ("log-dot", "dot", "neg-l2", "neg-js")
METHODS = ("end-to-end", "two-stage", "semi")
PAIRS = (VIEWS, NEIGHBOURS) = ("views", "neighbours")
SCRATCH_NAMES = ("small", "resnet18", "resnet34", "resnet50")
DEFAULT_BACKBONE = "default"
AUGMENTATIONS = ("auto", "photo", "photo-blur", "glyph", "none")
OPTIMISERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "cooldown")


@dataclass(frozen=True)
class TrainSettings:
    """How a run is trained."""

    clusters: int = 10
    """Number of clusters C, at least 2."""

    method: str = "end-to-end"
    """end-to-end; two-stage (representation first, then clusters of neighbours); semi (with labels, from a parent)."""

    epochs: int = 60
    """Times that every image is seen. Paper: 2000; 500 on ImageNet10 and ImageNet-Dogs; 200 in the second stage."""

    batch_size: int = 256
    """Images in a step; shrunk to the number of images if there are fewer. Paper: 512."""

    backbone: str = "small"
    """small, resnet18, resnet34, resnet50; pretrained: default, torchvision/NAME, timm/NAME. Paper: resnet34."""

    weights: str = ""
    """A file with weights for a ResNet (torchvision, timm or MoCo); empty for none. Paper: MoCo on ImageNet50+."""

    frozen: bool = False
    """Whether the backbone stays as it is: its vectors are then computed once and kept. Paper: on ImageNet50+."""

    components: int = 256
    """Principal components of a frozen backbone's vectors that the heads get (fewer if there are fewer images);
    0 for the vectors as they are. Paper: as they are."""

    hidden: int = 0
    """Width of the heads' hidden layers; 0 for that of their input. Paper: that of their input."""

    dropout: float = 0.0
    """Share of a frozen backbone's components that a view leaves out. Paper: none."""

    pairs: str = "views"
    """What a positive pair is: two views of an image, or an image and one of its neighbours. Paper: by the stage."""

    neighbours: int = 20
    """Nearest images K of which one makes the positive pair in the second stage. Paper: 50."""

    pretrain_epochs: int = 0
    """Epochs of the first stage, L_FC alone; 0 for none, as with pretrained weights. Paper: 500."""

    pretrain_optimiser: str = "adamw"
    """sgd or adamw, in the first stage. Paper: sgd."""

    pretrain_learning_rate: float = 3e-3
    """Highest learning rate of the first stage, falling along a cosine. Paper: 0.4 with sgd."""

    finetune_epochs: int = 0
    """Epochs in which a frozen backbone is trained too, after its heads; 0 for none. Paper: none."""

    finetune_learning_rate: float = 1e-4
    """Learning rate of those epochs."""

    image_size: int = 32
    """Side of the images in pixels. Paper: 32 for CIFAR, 96 for STL10."""

    subheads: int = 10
    """Number of C-subheads; the loss is their mean. Paper: 10."""

    implementation: str = "simclr"
    """simclr (two views, contrasted in the batch) or memory-bank (one view, contrasted with a bank)."""

    critic: str = "log-dot"
    """How probabilities are compared: log-dot, dot, neg-l2 or neg-js. Paper: log-dot."""

    smoothing: float = 0.01
    """Share of the uniform that is mixed into probabilities, γ. Paper: 0.01."""

    temperature: float = 0.1
    """Temperature of the feature critic, τ. Paper: 0.1."""

    entropy_weight: float = 1.0
    """Weight of the entropy of the mean probabilities, λ1. Paper: 1. L_PC likes even clusters by itself, with weight
    one: lower λ1 for uneven data, even below zero; at -1 nothing would be left against a single cluster."""

    uneven_subheads: int = 0
    """How many of the subheads, at most half, are trained with λ1 = 0, to find groups of uneven size; one of them
    speaks only if neighbours confirm its clusters clearly better. For pairs of neighbours. Paper: none."""

    feature_weight: float = 10.0
    """Weight of the feature contrastive loss, λ2; 0 trains the C-head only. Paper: 10."""

    label_weight: float = 1.0
    """Weight of the cross-entropy on labelled images, λ3, in CRLC-semi. Paper: 1."""

    labelled_batch: int = 64
    """Labelled images in every step of CRLC-semi, repeated when there are fewer. Paper: 64."""

    clustering_weight: float = 1.0
    """Weight of the C-head's loss; 0 trains the RL-head alone, to compare with. Paper: 1."""

    bank_negatives: int = 4096
    """Rows drawn from the bank to contrast with, M. Paper: 4096."""

    bank_momentum: float = 0.5
    """Share of a row of the bank that stays at an update, α. Paper: 0.5."""

    augment: str = "auto"
    """Views: photo (crop, flip, colour), photo-blur, glyph (turn, shear, zoom), none, or auto by the images."""

    optimiser: str = "adamw"
    """sgd or adamw. Paper: sgd."""

    learning_rate: float = 3e-3
    """Highest learning rate. Paper: 0.1 with sgd."""

    schedule: str = "constant"
    """constant, cosine (to the last share), or cooldown (to 0 in the last fifth). Paper: constant; cosine in semi."""

    last_share: float = 0.0
    """Share of the highest learning rate at which a cosine ends. Paper: 0.01 in semi."""

    warmup_epochs: float = 0.0
    """Epochs over which the learning rate rises from zero. Paper: 0."""

    momentum: float = 0.9
    """Momentum of sgd. Paper: 0.9, no Nesterov."""

    weight_decay: float = 5e-4
    """Weight decay, not on biases and norms. Paper: 5e-4."""

    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 for no limit. Paper: none."""

    seed: int = 0
    """Fixes weights, order, views and draws."""

    log_steps: int = 10
    """Steps between two lines of metrics within an epoch."""

    evaluations: int = 20
    """How often, over the whole run, clusters are looked at and an intermediate result is written."""

    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints; one more is written at the end."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: naming the field, its value and what is allowed.
        """
        for name, kind in get_type_hints(type(self)).items():
            value = getattr(self, name)
            if not isinstance(value, int if kind is int else (kind, int) if kind is float else kind) or (
                isinstance(value, bool) and kind is not bool
            ):
                raise UsageError(f"{name}={value!r} is not allowed: it must be {_KIND_NAMES[kind]}.")
        for name, lowest, highest in _RANGES:
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise UsageError(f"{name}={value} is not allowed: it must be from {lowest} to {highest:,}.")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r} is not allowed: it must be one of {', '.join(allowed)}.")
        self._check_together()

    def _check_together(self) -> None:
        """Refuse what cannot be had at once."""
        if not is_known_backbone(self.backbone):
            near = difflib.get_close_matches(self.backbone, (*SCRATCH_NAMES, DEFAULT_BACKBONE), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"For a pretrained one say timm/{self.backbone}."
            raise UsageError(f"backbone={self.backbone!r} is not known. {hint}")
        if self.frozen and self.backbone in SCRATCH_NAMES and not self.weights:
            raise UsageError(
                f"frozen=True is not allowed with backbone={self.backbone!r}: it has not learned anything yet. "
                "Choose backbone=default, or give weights."
            )
        expected = {"end-to-end": VIEWS, "two-stage": NEIGHBOURS}.get(self.method, self.pairs)
        if self.pairs != expected:
            raise UsageError(f"pairs={self.pairs!r} is not allowed with method={self.method!r}: it must be {expected}.")
        if self.implementation == "memory-bank" and self.pairs == NEIGHBOURS:
            raise UsageError("implementation='memory-bank' is only for pairs of views: choose simclr, or end-to-end.")
        if self.frozen and self.pairs == VIEWS:
            raise UsageError("frozen=True is only for pairs of neighbours: choose method=two-stage.")
        if self.frozen and self.pretrain_epochs:
            raise UsageError("pretrain_epochs is not allowed with frozen=True: a frozen backbone is not trained first.")
        if self.finetune_epochs and not self.frozen:
            raise UsageError("finetune_epochs is only for frozen=True: without it the backbone is trained anyway.")

    @property
    def uneven(self) -> int:
        """How many subheads are for uneven groups."""
        return min(self.uneven_subheads, self.subheads // 2) if self.pairs == NEIGHBOURS else 0

    def with_overrides(self, assignments: Iterable[str]) -> TrainSettings:
        """The same with some `name=value` changed, as given on a command line.

        Raises:
            UsageError: an unknown name (the nearest is offered), or a value of the wrong kind.
        """
        kinds = get_type_hints(type(self))
        changes: dict[str, Any] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if name not in kinds or not equals:
                near = difflib.get_close_matches(name, kinds, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(kinds)}."
                raise UsageError(f"{assignment!r} is not a setting as name=value. {hint}")
            try:
                changes[name] = _TRUTHS[text.lower()] if kinds[name] is bool else kinds[name](text)
            except (ValueError, KeyError):
                raise UsageError(f"{name}={text!r} is not allowed: it must be {_KIND_NAMES[kinds[name]]}.") from None
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TrainSettings:
        """From run.json; fields that it does not know are left at their defaults."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})


def is_known_backbone(name: str) -> bool:
    """Whether a backbone of that name can be looked for."""
    return name in (*SCRATCH_NAMES, DEFAULT_BACKBONE) or name.startswith(("torchvision/", "timm/"))


_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_RANGES = (
    ("components", 0, 100_000),
    ("hidden", 0, 100_000),
    ("dropout", 0.0, 0.9),
    ("neighbours", 1, 10_000),
    ("pretrain_epochs", 0, 1_000_000),
    ("pretrain_learning_rate", 0.0, 100.0),
    ("finetune_epochs", 0, 1_000_000),
    ("finetune_learning_rate", 0.0, 100.0),
    ("label_weight", 0.0, 1000.0),
    ("labelled_batch", 1, 1_000_000),
    ("last_share", 0.0, 1.0),
    ("clusters", 2, 100_000),
    ("epochs", 1, 1_000_000),
    ("batch_size", 2, 1_000_000),
    ("image_size", 8, 1024),
    ("subheads", 1, 1000),
    ("uneven_subheads", 0, 1000),
    ("smoothing", 0.0, 0.5),
    ("temperature", 0.001, 100.0),
    ("entropy_weight", -0.9, 1000.0),
    ("feature_weight", 0.0, 1000.0),
    ("clustering_weight", 0.0, 1000.0),
    ("bank_negatives", 1, 10_000_000),
    ("bank_momentum", 0.0, 0.9999),
    ("learning_rate", 0.0, 100.0),
    ("warmup_epochs", 0.0, 1_000_000.0),
    ("momentum", 0.0, 0.9999),
    ("weight_decay", 0.0, 10.0),
    ("clip_norm", 0.0, 1_000_000.0),
    ("seed", 0, 2**62),
    ("log_steps", 1, 1_000_000),
    ("evaluations", 1, 1_000_000),
    ("checkpoint_seconds", 0.0, 1_000_000.0),
)
_CHOICES = {
    "method": METHODS,
    "pairs": PAIRS,
    "implementation": IMPLEMENTATIONS,
    "critic": CRITIC_NAMES,
    "augment": AUGMENTATIONS,
    "optimiser": OPTIMISERS,
    "pretrain_optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
}
