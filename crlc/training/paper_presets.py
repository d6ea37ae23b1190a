"""Presets of the paper's experiments, and their variants. docs/paper.md lists the table or figure of each."""

from __future__ import annotations

from typing import Any

from crlc.errors import UsageError
from crlc.training.settings import NEIGHBOURS, VIEWS, TrainSettings

_END_TO_END = TrainSettings().replace(
    epochs=2000,
    batch_size=512,
    backbone="resnet34",
    augment="photo",
    optimizer="sgd",
    learning_rate=0.1,
    schedule="constant",
    entropy_weight=1.0,
    feature_weight=10.0,
    mixed_precision=False,
)
"""End-to-end training, as in Table 1: L_CRLC (Eq. 11) with λ1 = 1 and λ2 = 10."""

_IMAGENET = _END_TO_END.replace(image_size=224, epochs=500, augment="photo-blur", view_source="originals")
"""End-to-end training on ImageNet10 and ImageNet-Dogs."""

_TWO_STAGE = _END_TO_END.replace(
    method="two-stage",
    pairs=NEIGHBOURS,
    backbone="resnet18",
    pretrain_epochs=500,
    pretrain_optimizer="sgd",
    pretrain_learning_rate=0.4,
    epochs=200,
    optimizer="adam",
    learning_rate=1e-4,
    weight_decay=1e-4,
    neighbours=50,
    feature_weight=0.0,
)
"""SimCLR pretraining, then clustering with neighbour pairs: the two-stage experiments on CIFAR10/20 and STL10."""

_FROZEN = _TWO_STAGE.replace(
    backbone="resnet50",
    image_size=224,
    augment="photo-blur",
    view_source="originals",
    stored_features=False,
    pca_components=0,
    pretrain_epochs=0,
    optimizer="sgd",
    learning_rate=5.0,
    weight_decay=0.0,
)
"""The C-head alone on MoCo's ResNet-50: the two-stage experiments on ImageNet subsets. `build_paper_preset` adds the
weights file and freezes the backbone."""

_SEMI = _END_TO_END.replace(
    method="semi",
    feature_weight=5.0,
    label_weight=1.0,
    labelled_batch_size=64,
    schedule="cosine-by-epoch",
    final_rate_fraction=0.01,
    image_size=32,
)
"""CRLC-semi (Eq. 12), as in Table 8, with the cosine learning rate of A.13."""

PAPER_PRESETS: dict[str, TrainSettings] = {
    "paper-cifar10": _END_TO_END.replace(clusters=10, image_size=32),
    "paper-cifar20": _END_TO_END.replace(clusters=20, image_size=32),
    "paper-stl10": _END_TO_END.replace(clusters=10, image_size=96, stem="pooled", clusterable_fraction=0.5),
    "paper-imagenet10": _IMAGENET.replace(clusters=10),
    "paper-imagenet-dogs": _IMAGENET.replace(clusters=15),
    "paper-two-stage-cifar10": _TWO_STAGE.replace(clusters=10, image_size=32),
    "paper-two-stage-cifar20": _TWO_STAGE.replace(clusters=20, image_size=32),
    "paper-two-stage-stl10": _TWO_STAGE.replace(clusters=10, image_size=96, stem="pooled"),
    "paper-imagenet50": _FROZEN.replace(clusters=50),
    "paper-imagenet100": _FROZEN.replace(clusters=100),
    "paper-imagenet200": _FROZEN.replace(clusters=200),
    "paper-semi-cifar10": _SEMI.replace(clusters=10, epochs=2000),
    "paper-semi-cifar100": _SEMI.replace(clusters=100, epochs=1000),
}
"""Settings of the paper's experiments, by the dataset they were made on."""

PRESETS_WITH_WEIGHTS = ("paper-imagenet50", "paper-imagenet100", "paper-imagenet200")
"""Presets that need a file with the weights of a pretrained ResNet-50."""

SEMI_PRESETS = tuple(name for name, settings in PAPER_PRESETS.items() if settings.stages.method == "semi")
"""Presets of CRLC-semi, which need labels."""

VARIANTS = (C_HEAD_ONLY, MEMORY_BANK, STORED_FEATURES) = ("c-head-only", "memory-bank", "stored-features")


def list_variants(name: str) -> tuple[str, ...]:
    """Return the variants that a preset of the paper has."""
    if name in PRESETS_WITH_WEIGHTS:
        return (STORED_FEATURES,)
    return (C_HEAD_ONLY, MEMORY_BANK) if PAPER_PRESETS[name].pairing.pairs == VIEWS else ()


def build_paper_preset(name: str, variant: str = "", weights: str = "") -> TrainSettings:
    """Return the settings of a preset of the paper.

    Args:
        name: one of `PAPER_PRESETS`.
        variant: empty, or one of `VARIANTS`. `c-head-only` trains without L_FC (λ2 = 0; "C-head only" in Table 1), and
            `memory-bank` takes the negatives from a memory bank (Fig. 4, A.10.2); both are for pairs of views.
            `stored-features` trains on one stored vector per image without augmentation, which is faster and not what
            the paper does; it is for `PRESETS_WITH_WEIGHTS`.
        weights: file with the weights that `PRESETS_WITH_WEIGHTS` need.

    Raises:
        UsageError: the variant is unknown or does not fit the preset, or the weights are missing.
    """
    settings = PAPER_PRESETS[name]
    if name in PRESETS_WITH_WEIGHTS:
        if not weights:
            raise UsageError(
                f"preset={name!r} needs a weights file: a ResNet-50 that MoCo trained on ImageNet.",
                parameters=("weights",),
            )
        settings = settings.replace(weights=weights, frozen=True)
    if not variant:
        return settings
    if variant not in VARIANTS:
        raise UsageError(f"variant={variant!r} is not known: it must be one of {', '.join(VARIANTS)}.")
    if variant not in list_variants(name):
        allowed = "a frozen backbone" if variant == STORED_FEATURES else "pairs of views, not of neighbours"
        raise UsageError(f"variant={variant!r} is not allowed with preset={name!r}: it is for presets with {allowed}.")
    changes: dict[str, dict[str, Any]] = {
        C_HEAD_ONLY: {"feature_weight": 0.0},
        MEMORY_BANK: {"implementation": "memory-bank"},
        STORED_FEATURES: {"stored_features": True},
    }
    return settings.replace(**changes[variant])
