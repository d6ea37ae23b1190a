"""Planning: turns a training request into the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crlc.backbone_catalogue import OPEN_CLIP_PREFIX
from crlc.data.augmentation import choose_recipe
from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import UsageError
from crlc.model.pretrained import load_pretrained
from crlc.training.images import TrainingImages
from crlc.training.presets import AUTO, MethodChoice, PresetContext, build_preset, choose_method
from crlc.training.request import TrainRequest, require_effect
from crlc.training.settings import NEIGHBOURS, PIP_BACKBONES, SCRATCH_NAMES, TrainSettings

_SAMPLE_IMAGES = 64
_IMAGENET_SIZE = 224


@dataclass(frozen=True)
class RunPlan:
    """Settings of a run, and the reason for its method."""

    settings: TrainSettings
    reason: str
    """A phrase, such as "as requested"."""


def plan_run(request: TrainRequest, images: TrainingImages, *, has_gpu: bool) -> RunPlan:
    """Adapt the requested preset to the images and the computer, and apply the requested settings.

    Args:
        request: preset, method and settings.
        images: the training images, at the size in which the dataset stores them.
        has_gpu: whether training uses a GPU.

    Raises:
        UsageError: a name or value is not known, or values contradict each other.
    """
    has_glyphs = choose_recipe(images.sample_pixels(_SAMPLE_IMAGES)) == "glyph"
    choice = _choose_method(request, has_glyphs=has_glyphs, image_size=images.size, has_gpu=has_gpu)
    context = PresetContext(
        len(images),
        images.size,
        has_glyphs,
        has_gpu,
        choice.method,
        request.frozen,
        request.backbone,
        request.weights,
        request.variant,
    )
    settings = build_preset(request.preset, context)
    values: dict[str, Any] = {**_choose_image_size(request, settings, images.size), **request.values}
    if request.backbone is not None:
        values["backbone"] = request.backbone
    if request.weights:
        values["weights"] = request.weights
    if request.frozen is not None and settings.stages.method != "end-to-end":
        values["frozen"] = request.frozen
    require_effect(request, settings)
    settings = settings.replace(**values)
    return RunPlan(settings.with_overrides(request.assignments), choice.reason)


def _choose_image_size(request: TrainRequest, settings: TrainSettings, image_size: int) -> dict[str, int]:
    """Return the image size of a requested pretrained backbone as a setting; empty if the preset decides."""
    if request.has_paper_preset or settings.pairing.pairs != NEIGHBOURS:
        return {}
    is_image_text = (request.backbone or "").startswith(OPEN_CLIP_PREFIX)
    if request.weights and not is_image_text:
        return {"image_size": _IMAGENET_SIZE}
    if request.backbone is None or request.backbone in (*SCRATCH_NAMES, *PIP_BACKBONES):
        return {}
    if request.backbone.startswith(VECTORS_PREFIX):
        return {"image_size": image_size}  # images are only shown: any stored size will do
    return {"image_size": load_pretrained(request.backbone, request.weights).image_size}


def _choose_method(request: TrainRequest, *, has_glyphs: bool, image_size: int, has_gpu: bool) -> MethodChoice:
    if request.method == "semi" and not request.has_semi_preset:
        raise UsageError("method='semi' needs a parent run and labels.", parameters=("parent", "labels"))
    if request.has_paper_preset:
        return MethodChoice(request.method, f"as in the preset {request.preset}")
    if request.method != AUTO:
        return MethodChoice(request.method, "as requested")
    if request.backbone is not None and request.backbone.startswith(VECTORS_PREFIX):
        return MethodChoice("two-stage", "two stages on the imported vectors")
    if request.frozen is not None or request.weights:
        return MethodChoice("two-stage", "two stages, as a pretrained backbone is requested")
    if request.backbone is not None:
        is_scratch = request.backbone in SCRATCH_NAMES
        kind = "trained from scratch" if is_scratch else "pretrained"
        return MethodChoice("end-to-end" if is_scratch else "two-stage", f"as {request.backbone} is {kind}")
    return choose_method(has_glyphs=has_glyphs, image_size=image_size, has_gpu=has_gpu)
