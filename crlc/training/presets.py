"""Settings by name: three that fit the computer and the data, and the paper's own."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

from crlc.errors import UsageError
from crlc.training.settings import DEFAULT_BACKBONE, NEIGHBOURS, SCRATCH_NAMES, TrainSettings

AUTO = "auto"
DEFAULT_CLUSTERS = 10
DEFAULT_BACKBONE_SIZE = 160
_TINY_IMAGE = 32
_QUICK_STEPS_ON_CPU = 2_000
_LEAST_EPOCHS = 5
_FEW_IMAGES = 10_000
_HEAD_STEPS = 700
"""The heads of a frozen backbone are counted in steps: with few images, epochs are short."""


@dataclass(frozen=True)
class Circumstances:
    """What `quick`, `balanced` and `best` are fitted to."""

    images: int
    image_size: int
    glyphs: bool
    """Small grey images."""

    has_gpu: bool
    method: str = "end-to-end"
    """end-to-end or two-stage; `chosen_method` says which for `auto`."""

    frozen: bool | None = None
    """Whether a two-stage run leaves its pretrained backbone as it is; none to decide by the computer."""

    backbone: str | None = None
    """A backbone that a person asked for."""

    weights: str = ""
    """A file with weights for it."""


@dataclass(frozen=True)
class Choice:
    """A method, and why."""

    method: str
    reason: str


def chosen_method(*, glyphs: bool, image_size: int, has_gpu: bool) -> Choice:
    """What `--method auto` means for some images on some computer."""
    if glyphs:
        return Choice("end-to-end", f"end to end with a small network, as the images are grey and of {image_size} px")
    if has_gpu:
        return Choice("two-stage", "two stages on a pretrained backbone, then fine-tuning if the preset has the time")
    return Choice("two-stage", "two stages on a frozen pretrained backbone, as there is no GPU to train one")


def preset(name: str, circumstances: Circumstances) -> TrainSettings:
    """The settings of that name.

    Raises:
        UsageError: there is no such preset; the nearest is offered.
    """
    if name in _FITTED:
        return _FITTED[name](circumstances)
    if name in SUBSETS_OF_IMAGENET:
        return _subset_of_imagenet(name, circumstances.weights)
    if name in _PAPER_FORMS:
        return replace(_PAPER_FORMS[name], image_size=circumstances.image_size, clusters=DEFAULT_CLUSTERS)
    if name in PAPER:
        return PAPER[name]
    near = difflib.get_close_matches(name, PRESET_NAMES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(PRESET_NAMES)}."
    raise UsageError(f"preset={name!r} is not known. {hint}")


# ---- fitted to computer and data


def _quick(around: Circumstances) -> TrainSettings:
    """About a minute on a CPU for a few thousand images; at most 60 epochs end to end."""
    return _two_stage(around, longer=1) if around.method == "two-stage" else _end_to_end(around, longer=1)


def _balanced(around: Circumstances) -> TrainSettings:
    """Three times as long as `quick`; with a GPU a ResNet-18, or fine-tuning of a pretrained backbone."""
    if around.method == "two-stage":
        return _two_stage(around, longer=3)
    settings = _end_to_end(around, longer=3)
    return replace(settings, backbone="resnet18") if around.has_gpu else settings


def _best(around: Circumstances) -> TrainSettings:
    """Ten times as long as `quick`; with a GPU the paper's ResNet-34 and batch, or long fine-tuning."""
    if around.method == "two-stage":
        return _two_stage(around, longer=10)
    settings = _end_to_end(around, longer=10)
    return replace(settings, backbone="resnet34", batch_size=512) if around.has_gpu else settings


def _end_to_end(around: Circumstances, longer: int) -> TrainSettings:
    # Few images give few steps in an epoch: a smaller batch gives more of them for the same work.
    batch = 128 if around.images < _FEW_IMAGES else 256
    steps_per_epoch = max(1, around.images // batch)
    epochs = 60 if around.has_gpu else max(_LEAST_EPOCHS, min(60, _QUICK_STEPS_ON_CPU // steps_per_epoch))
    return TrainSettings(
        epochs=epochs * longer,
        batch_size=batch,
        backbone="resnet18" if around.has_gpu and around.image_size > _TINY_IMAGE else "small",
        image_size=around.image_size,
        feature_weight=1.0 if around.glyphs else 10.0,
    )


def _two_stage(around: Circumstances, longer: int) -> TrainSettings:
    """On a pretrained backbone, unless one from scratch was asked for."""
    if around.backbone in SCRATCH_NAMES and not around.weights:
        first = _end_to_end(around, longer)
        return replace(
            first,
            method="two-stage",
            pairs=NEIGHBOURS,
            backbone=str(around.backbone),
            pretrain_epochs=max(1, 2 * first.epochs // 3),
            epochs=max(1, first.epochs // 3),
            learning_rate=1e-3,
            schedule="cosine",
            feature_weight=0.0,
        )
    frozen = FROZEN_HEADS if around.frozen is not False else replace(FROZEN_HEADS, frozen=False, dropout=0.0)
    batch = min(frozen.batch_size, max(2, around.images))
    epochs = -(-_HEAD_STEPS * batch // max(1, around.images))
    backbone = around.backbone or DEFAULT_BACKBONE
    settings = replace(frozen, epochs=epochs * min(longer, 3), backbone=backbone, weights=around.weights)
    if not settings.frozen:
        return replace(settings, learning_rate=1e-4, hidden=0)
    fine_tunes = around.has_gpu and longer > 1 and around.frozen is None
    return replace(settings, finetune_epochs=10 * longer) if fine_tunes else settings


FROZEN_HEADS = TrainSettings(
    method="two-stage",
    pairs=NEIGHBOURS,
    frozen=True,
    backbone=DEFAULT_BACKBONE,
    image_size=DEFAULT_BACKBONE_SIZE,
    batch_size=256,
    hidden=256,
    dropout=0.2,
    neighbours=20,
    entropy_weight=2.0,
    subheads=14,
    uneven_subheads=4,
    feature_weight=1.0,
    learning_rate=1e-3,
    schedule="cosine",
    weight_decay=1e-2,
)
_FITTED: dict[str, Callable[[Circumstances], TrainSettings]] = {"quick": _quick, "balanced": _balanced, "best": _best}

# ---- the paper's

_END_TO_END = TrainSettings(
    epochs=2000,
    batch_size=512,
    backbone="resnet34",
    augment="photo",
    optimiser="sgd",
    learning_rate=0.1,
    schedule="constant",
    entropy_weight=1.0,
    feature_weight=10.0,
)
_TWO_STAGE = replace(
    _END_TO_END,
    method="two-stage",
    pairs=NEIGHBOURS,
    backbone="resnet18",
    pretrain_epochs=500,
    pretrain_optimiser="sgd",
    pretrain_learning_rate=0.4,
    epochs=200,
    optimiser="adamw",
    learning_rate=1e-4,
    weight_decay=1e-4,
    neighbours=50,
    feature_weight=0.0,
)
_SEMI = replace(
    _END_TO_END,
    method="semi",
    feature_weight=5.0,
    label_weight=1.0,
    labelled_batch=64,
    schedule="cosine",
    last_share=0.01,
    image_size=32,
)
SUBSETS_OF_IMAGENET = {"paper-imagenet50": 50, "paper-imagenet100": 100, "paper-imagenet200": 200}
"""Presets that want a file with MoCo's weights, and their numbers of clusters."""


def _subset_of_imagenet(name: str, weights: str) -> TrainSettings:
    """Only the C-head, on the vectors of MoCo's frozen ResNet-50 as they are."""
    if not weights:
        raise UsageError(f"preset={name!r} needs --weights FILE: a ResNet-50 that MoCo trained on ImageNet.")
    return replace(
        _TWO_STAGE,
        backbone="resnet50",
        weights=weights,
        frozen=True,
        image_size=224,
        components=0,
        pretrain_epochs=0,
        optimiser="sgd",
        learning_rate=5.0,
        weight_decay=0.0,
        clusters=SUBSETS_OF_IMAGENET[name],
    )


_PAPER_FORMS: dict[str, TrainSettings] = {
    "paper-c-head-only": replace(_END_TO_END, feature_weight=0.0),
    "paper-memory-bank": replace(_END_TO_END, implementation="memory-bank"),
}
PAPER: dict[str, TrainSettings] = {
    "paper-cifar10": replace(_END_TO_END, clusters=10, image_size=32),
    "paper-cifar20": replace(_END_TO_END, clusters=20, image_size=32),
    "paper-stl10": replace(_END_TO_END, clusters=10, image_size=96),
    "paper-imagenet10": replace(_END_TO_END, clusters=10, image_size=224, epochs=500, augment="photo-blur"),
    "paper-imagenet-dogs": replace(_END_TO_END, clusters=15, image_size=224, epochs=500, augment="photo-blur"),
    "paper-two-stage-cifar10": replace(_TWO_STAGE, clusters=10, image_size=32),
    "paper-two-stage-cifar20": replace(_TWO_STAGE, clusters=20, image_size=32),
    "paper-two-stage-stl10": replace(_TWO_STAGE, clusters=10, image_size=96),
    "paper-semi-cifar10": replace(_SEMI, clusters=10, epochs=2000),
    "paper-semi-cifar100": replace(_SEMI, clusters=100, epochs=1000),
}
PRESET_NAMES = (*_FITTED, *PAPER, *SUBSETS_OF_IMAGENET, *_PAPER_FORMS)
