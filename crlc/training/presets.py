"""Presets: three that adapt to the computer and the data; those of the paper are in `paper_presets`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from crlc.data.options import PHOTOGRAPH_SIZE
from crlc.errors import UsageError
from crlc.training.paper_presets import PAPER_PRESETS, build_paper_preset
from crlc.training.settings import DEFAULT_BACKBONE, NEIGHBOURS, SCRATCH_NAMES, TrainSettings

AUTO = "auto"
DEFAULT_CLUSTERS = 10
"""Number of clusters of a dataset without ground-truth classes, or with one."""

MIN_CLUSTERS = 2

_MAX_SCRATCH_IMAGE_SIZE = 96
"""Training from scratch on larger images takes long, and is not clearly better."""

_SMALL_IMAGE_SIZE = 32
_MAX_QUICK_EPOCHS = 60
_MIN_QUICK_EPOCHS = 5
_QUICK_STEPS_ON_CPU = 2_000
_FEW_IMAGES = 10_000
_HEAD_STEPS = 700
"""Number of steps that train the heads on a frozen backbone. Steps, because epochs are short with few images."""


def choose_cluster_count(classes: int, images: int) -> int:
    """Return the number of clusters of a run or exploration that names none: that of the classes, if there are several.

    Args:
        classes: number of ground-truth classes of the dataset.
        images: number of images; there are never fewer of them than clusters, unless there is only one.
    """
    return classes if classes > 1 else max(MIN_CLUSTERS, min(DEFAULT_CLUSTERS, images))


@dataclass(frozen=True)
class PresetContext:
    """Data, computer and options that `quick`, `balanced` and `best` adapt to."""

    images: int
    image_size: int
    has_glyphs: bool
    """Whether the images are small and grey, like digits."""

    has_gpu: bool
    method: str = "end-to-end"
    """end-to-end or two-stage; `choose_method` resolves `auto`."""

    frozen: bool | None = None
    """Whether a two-stage run freezes its pretrained backbone; `None` to decide by preset and computer."""

    backbone: str | None = None
    """The requested backbone; `None` for the preset's."""

    weights: str = ""
    """File with weights for the requested backbone."""

    variant: str = ""
    """Variant of a paper preset; see `build_paper_preset`."""


@dataclass(frozen=True)
class MethodChoice:
    """A method and the reason for it."""

    method: str
    reason: str


def choose_method(*, has_glyphs: bool, image_size: int, has_gpu: bool) -> MethodChoice:
    """Choose a method for `auto`.

    Args:
        has_glyphs: whether the images are small and grey, like digits.
        image_size: side of the images in pixels, for the reason.
        has_gpu: whether the computer has a GPU.
    """
    if has_glyphs:
        reason = f"end to end with a small network, as the images are grey and of {image_size} px"
        return MethodChoice("end-to-end", reason)
    if has_gpu:
        reason = "two stages on a pretrained backbone, which the presets balanced and best then fine-tune"
        return MethodChoice("two-stage", reason)
    return MethodChoice("two-stage", "two stages on a frozen pretrained backbone, as there is no GPU to train one")


def build_preset(name: str, context: PresetContext) -> TrainSettings:
    """Return the settings of a preset.

    Args:
        name: one of `PRESET_NAMES`.
        context: data, computer and options; the paper's presets use little of it.

    Raises:
        UsageError: there is no such preset (the error suggests the most similar one) or variant, or it needs a weights
            file.
    """
    if name in _ADAPTIVE_PRESETS:
        if context.variant:
            raise UsageError(
                f"variant={context.variant!r} is not allowed with preset={name!r}: only presets of the paper have "
                "variants."
            )
        return _ADAPTIVE_PRESETS[name](context)
    if name in PAPER_PRESETS:
        return build_paper_preset(name, context.variant, context.weights)
    near = difflib.get_close_matches(name, PRESET_NAMES, n=1)
    advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(PRESET_NAMES)}."
    raise UsageError(f"preset={name!r} is not known.", advice=advice)


# ---- adapted to the computer and the data


def _build_quick(context: PresetContext) -> TrainSettings:
    """Return settings for about a minute on a CPU with a few thousand images; at most 60 epochs end to end."""
    return (
        _build_two_stage(context, length=1) if context.method == "two-stage" else _build_end_to_end(context, length=1)
    )


def _build_balanced(context: PresetContext) -> TrainSettings:
    """Return settings three times as long as `quick`; with a GPU, ResNet-18 or a fine-tuned pretrained backbone."""
    if context.method == "two-stage":
        return _build_two_stage(context, length=3)
    settings = _build_end_to_end(context, length=3)
    return settings.replace(backbone="resnet18") if context.has_gpu else settings


def _build_best(context: PresetContext) -> TrainSettings:
    """Return settings ten times as long as `quick`; with a GPU, the paper's ResNet-34 and batch, or fine-tuning."""
    if context.method == "two-stage":
        return _build_two_stage(context, length=10)
    settings = _build_end_to_end(context, length=10)
    return settings.replace(backbone="resnet34", batch_size=512) if context.has_gpu else settings


def _build_end_to_end(context: PresetContext, length: int) -> TrainSettings:
    """Return settings for training from scratch, `length` times as long as `quick`."""
    # Few images give few steps per epoch: a smaller batch gives more of them at the same cost.
    batch_size = 128 if context.images < _FEW_IMAGES else 256
    steps_per_epoch = max(1, context.images // batch_size)
    epochs = _MAX_QUICK_EPOCHS
    if not context.has_gpu:
        epochs = max(_MIN_QUICK_EPOCHS, min(_MAX_QUICK_EPOCHS, _QUICK_STEPS_ON_CPU // steps_per_epoch))
    return TrainSettings().replace(
        epochs=epochs * length,
        batch_size=batch_size,
        backbone="resnet18" if context.has_gpu and context.image_size > _SMALL_IMAGE_SIZE else "small",
        image_size=min(context.image_size, _MAX_SCRATCH_IMAGE_SIZE),
        feature_weight=1.0 if context.has_glyphs else 10.0,
    )


def _build_two_stage(context: PresetContext, length: int) -> TrainSettings:
    """Return settings for a pretrained backbone, or for two stages from scratch if the backbone is untrained."""
    if context.backbone in SCRATCH_NAMES and not context.weights:
        end_to_end = _build_end_to_end(context, length)
        return end_to_end.replace(
            method="two-stage",
            pairs=NEIGHBOURS,
            backbone=str(context.backbone),
            pretrain_epochs=max(1, 2 * end_to_end.stages.epochs // 3),
            epochs=max(1, end_to_end.stages.epochs // 3),
            learning_rate=1e-3,
            schedule="cosine",
            feature_weight=0.0,
        )
    heads = FROZEN_HEADS if context.frozen is not False else FROZEN_HEADS.replace(frozen=False, feature_dropout=0.0)
    batch_size = min(heads.data.batch_size, max(2, context.images))
    epochs = -(-_HEAD_STEPS * batch_size // max(1, context.images))
    backbone = context.backbone or DEFAULT_BACKBONE
    settings = heads.replace(epochs=epochs * min(length, 3), backbone=backbone, weights=context.weights)
    if not settings.model.frozen:
        return settings.replace(learning_rate=1e-4, hidden_width=0)
    is_fine_tuned = context.has_gpu and length > 1 and context.frozen is None
    return settings.replace(finetune_epochs=10 * length) if is_fine_tuned else settings


FROZEN_HEADS = TrainSettings().replace(
    method="two-stage",
    pairs=NEIGHBOURS,
    frozen=True,
    backbone=DEFAULT_BACKBONE,
    image_size=PHOTOGRAPH_SIZE,
    batch_size=256,
    hidden_width=256,
    feature_dropout=0.2,
    neighbours=20,
    entropy_weight=2.0,
    subheads=14,
    unbalanced_subheads=4,
    unbalanced_entropy_weight=-0.25,
    consensus=True,
    feature_weight=1.0,
    finetune_feature_weight=0.0,
    learning_rate=1e-3,
    schedule="cosine",
    weight_decay=1e-2,
)
"""Heads on the cached features of the frozen default backbone: photographs on a computer without a GPU."""

_ADAPTIVE_PRESETS: dict[str, Callable[[PresetContext], TrainSettings]] = {
    "quick": _build_quick,
    "balanced": _build_balanced,
    "best": _build_best,
}

PRESET_NAMES = (*_ADAPTIVE_PRESETS, *PAPER_PRESETS)
