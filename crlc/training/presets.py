"""Settings by name: three that fit the computer and the data, and the paper's own."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

from crlc.errors import UsageError
from crlc.training.settings import TrainSettings

_TINY_IMAGE = 32
_QUICK_STEPS_ON_CPU = 2_000
DEFAULT_CLUSTERS = 10
_LEAST_EPOCHS = 5
_FEW_IMAGES = 10_000


@dataclass(frozen=True)
class Circumstances:
    """What `quick`, `balanced` and `best` are fitted to."""

    images: int
    image_size: int
    glyphs: bool
    """Small grey images."""

    has_gpu: bool


def preset(name: str, circumstances: Circumstances) -> TrainSettings:
    """The settings of that name.

    Raises:
        UsageError: there is no such preset; the nearest is offered.
    """
    if name in _FITTED:
        return _FITTED[name](circumstances)
    if name in PAPER:
        return PAPER[name]
    near = difflib.get_close_matches(name, PRESET_NAMES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(PRESET_NAMES)}."
    raise UsageError(f"preset={name!r} is not known. {hint}")


def _quick(around: Circumstances) -> TrainSettings:
    """About a minute on a CPU for a few thousand small images; at most 60 epochs."""
    # Few images give few steps in an epoch: a smaller batch gives more of them for the same work.
    batch = 128 if around.images < _FEW_IMAGES else 256
    steps_per_epoch = max(1, around.images // batch)
    epochs = 60 if around.has_gpu else max(_LEAST_EPOCHS, min(60, _QUICK_STEPS_ON_CPU // steps_per_epoch))
    settings = TrainSettings(
        epochs=epochs,
        batch_size=batch,
        backbone="resnet18" if around.has_gpu and around.image_size > _TINY_IMAGE else "small",
        image_size=around.image_size,
        feature_weight=1.0,
    )
    return settings if around.glyphs else replace(settings, feature_weight=10.0)


def _balanced(around: Circumstances) -> TrainSettings:
    """Three times as long as `quick`; with a GPU a ResNet-18."""
    settings = _quick(around)
    backbone = "resnet18" if around.has_gpu else settings.backbone
    return replace(settings, epochs=3 * settings.epochs, backbone=backbone)


def _best(around: Circumstances) -> TrainSettings:
    """Ten times as long as `quick`; with a GPU the paper's ResNet-34 and batch."""
    settings = replace(_quick(around), epochs=10 * _quick(around).epochs)
    return replace(settings, backbone="resnet34", batch_size=512) if around.has_gpu else settings


_FITTED: dict[str, Callable[[Circumstances], TrainSettings]] = {"quick": _quick, "balanced": _balanced, "best": _best}

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
PAPER: dict[str, TrainSettings] = {
    "paper-cifar10": replace(_END_TO_END, clusters=10, image_size=32),
    "paper-cifar20": replace(_END_TO_END, clusters=20, image_size=32),
    "paper-stl10": replace(_END_TO_END, clusters=10, image_size=96),
    "paper-imagenet10": replace(_END_TO_END, clusters=10, image_size=224, epochs=500, augment="photo-blur"),
    "paper-imagenet-dogs": replace(_END_TO_END, clusters=15, image_size=224, epochs=500, augment="photo-blur"),
    "paper-c-head-only": replace(_END_TO_END, feature_weight=0.0),
    "paper-memory-bank": replace(_END_TO_END, implementation="memory-bank"),
}
PRESET_NAMES = (*_FITTED, *PAPER)
