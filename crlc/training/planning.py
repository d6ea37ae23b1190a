"""From what a person asked for to the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crlc.data.augment import suitable_recipe
from crlc.errors import UsageError
from crlc.model.pretrained import load_pretrained
from crlc.training.images import TrainingImages
from crlc.training.presets import AUTO, Circumstances, chosen_method, preset
from crlc.training.settings import DEFAULT_BACKBONE, NEIGHBOURS, SCRATCH_NAMES, TrainSettings

_SAMPLED = 64
_IMAGENET_SIZE = 224


@dataclass(frozen=True)
class TrainRequest:
    """What a person said; what they left open is none."""

    preset: str = "quick"
    method: str = AUTO
    frozen: bool | None = None
    backbone: str | None = None
    weights: str = ""
    named: Mapping[str, Any] = field(default_factory=dict)
    """Other settings by name, of the right kind."""

    assignments: tuple[str, ...] = ()
    """Other settings as `name=value`."""


@dataclass(frozen=True)
class Plan:
    """The settings, and in one line why this method."""

    settings: TrainSettings
    reason: str


def plan_run(request: TrainRequest, images: TrainingImages, *, has_gpu: bool) -> Plan:
    """Fit a preset to images and computer, and change in it what was asked for.

    Args:
        request: what a person said.
        images: at their usual size.
        has_gpu: whether there is one.

    Raises:
        UsageError: what was asked for is not known, or cannot be had together.
    """
    glyphs = suitable_recipe(images.sample(_SAMPLED)) == "glyph"
    method, reason = _method(request, glyphs=glyphs, image_size=images.size, has_gpu=has_gpu)
    around = Circumstances(
        len(images), images.size, glyphs, has_gpu, method, request.frozen, request.backbone, request.weights
    )
    settings = preset(request.preset, around)
    named: dict[str, Any] = {**_input_size(request, settings), **request.named}
    if request.backbone is not None:
        named["backbone"] = request.backbone
    if request.weights:
        named["weights"] = request.weights
    if request.frozen is not None and settings.method != "end-to-end":
        named["frozen"] = request.frozen
    _require_used(request, settings)
    settings = replace(settings, **named)
    return Plan(settings.with_overrides(request.assignments), reason)


def _input_size(request: TrainRequest, settings: TrainSettings) -> dict[str, int]:
    """The size that a named pretrained backbone is usually fed with, where a run is at liberty to choose."""
    if request.preset.startswith("paper-") or settings.pairs != NEIGHBOURS:
        return {}
    if request.weights:
        return {"image_size": _IMAGENET_SIZE}
    if request.backbone is None or request.backbone in (*SCRATCH_NAMES, DEFAULT_BACKBONE):
        return {}
    return {"image_size": load_pretrained(request.backbone).image_size}


def _require_used(request: TrainRequest, settings: TrainSettings) -> None:
    """Refuse what was asked for and would do nothing."""
    if request.method not in (AUTO, settings.method):
        raise UsageError(f"method={request.method!r} is not allowed: the preset {request.preset} is {settings.method}.")
    if request.frozen and settings.pairs != NEIGHBOURS:
        raise UsageError("frozen=True is only for pairs of neighbours: choose --method two-stage.")
    if "neighbours" in request.named and settings.pairs != NEIGHBOURS:
        raise UsageError("neighbours are only used by --method two-stage.")
    if "augment" in request.named and settings.frozen and not settings.finetune_epochs and request.frozen is not False:
        raise UsageError(
            "augment does nothing while the backbone is frozen: choose --finetune, or --method end-to-end."
        )


def _method(request: TrainRequest, *, glyphs: bool, image_size: int, has_gpu: bool) -> tuple[str, str]:
    if request.method == "semi" and not request.preset.startswith("paper-semi"):
        raise UsageError("method='semi' needs a parent run and labels: give --parent RUN and --labels.")
    if request.preset.startswith("paper-"):
        return request.method, f"as the preset {request.preset} says"
    if request.method != AUTO:
        return request.method, "as asked for"
    if request.frozen is not None or request.weights:
        return "two-stage", "two stages, as a frozen or given backbone was asked for"
    if request.backbone is not None:
        scratch = request.backbone in SCRATCH_NAMES
        kind = "one trained from scratch" if scratch else "a pretrained one"
        return "end-to-end" if scratch else "two-stage", f"as the backbone {request.backbone} is {kind}"
    choice = chosen_method(glyphs=glyphs, image_size=image_size, has_gpu=has_gpu)
    return choice.method, choice.reason
