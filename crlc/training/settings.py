"""Everything that decides a run, in one frozen dataclass: each field with its meaning and the paper's value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from crlc.errors import UsageError

IMPLEMENTATIONS = ("simclr", "memory-bank")
CRITIC_NAMES = ("log-dot", "dot", "neg-l2", "neg-js")
BACKBONE_NAMES = ("small", "resnet18", "resnet34", "resnet50")
AUGMENTATIONS = ("auto", "photo", "photo-blur", "glyph", "none")
OPTIMISERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "cooldown")


@dataclass(frozen=True)
class TrainSettings:
    """How a run is trained."""

    clusters: int = 10
    """Number of clusters C, at least 2."""

    epochs: int = 60
    """Times that every image is seen. Paper: 2000; 500 on ImageNet10 and ImageNet-Dogs."""

    batch_size: int = 256
    """Images in a step; shrunk to the number of images if there are fewer. Paper: 512."""

    backbone: str = "small"
    """small, resnet18, resnet34 or resnet50. Paper: resnet34."""

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
    """Weight of the entropy of the mean probabilities, λ1. Paper: 1; lower it for very uneven data."""

    feature_weight: float = 10.0
    """Weight of the feature contrastive loss, λ2; 0 trains the C-head only. Paper: 10."""

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
    """constant, cosine (to zero at the end), or cooldown (to zero in the last fifth). Paper: constant."""

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
        for name, lowest, highest in _RANGES:
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise UsageError(f"{name}={value} is not allowed: it must be from {lowest} to {highest:,}.")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"{name}={value!r} is not allowed: it must be one of {', '.join(allowed)}.")

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
                changes[name] = kinds[name](text)
            except ValueError:
                kind = "a whole number" if kinds[name] is int else "a number"
                raise UsageError(f"{name}={text!r} is not allowed: it must be {kind}.") from None
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> TrainSettings:
        """From run.json; fields that it does not know are left at their defaults."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})


_RANGES = (
    ("clusters", 2, 100_000),
    ("epochs", 1, 1_000_000),
    ("batch_size", 2, 1_000_000),
    ("image_size", 8, 1024),
    ("subheads", 1, 1000),
    ("smoothing", 0.0, 0.5),
    ("temperature", 0.001, 100.0),
    ("entropy_weight", 0.0, 1000.0),
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
    "implementation": IMPLEMENTATIONS,
    "critic": CRITIC_NAMES,
    "backbone": BACKBONE_NAMES,
    "augment": AUGMENTATIONS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
}
