"""Untrained backbones by name, for model files that contain all weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from crlc.backbone_catalogue import OPEN_CLIP_PREFIX
from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import UsageError
from crlc.model.backbone_pair import SEPARATOR, UNIT_NORMALIZATION, BackbonePair
from crlc.model.backbones import AUTO_STEM, SCRATCH_BACKBONES
from crlc.model.image_text import build_untrained_image_encoder
from crlc.model.installed_weights import INSTALLED_WEIGHTS
from crlc.model.pretrained import get_timm_options, remove_classifier

_TORCHVISION, _TIMM = "torchvision/", "timm/"
_PRETRAINED_OPTIONS: dict[str, dict[str, Any]] = {
    "googlenet": {"transform_input": True, "aux_logits": False, "init_weights": False},
    "inception_v3": {"transform_input": True, "init_weights": False},
}
"""Options that torchvision itself sets for these models only when it loads pretrained weights."""


def build_untrained_backbone(name: str, image_size: int, stem: str = AUTO_STEM) -> nn.Module:
    """Build the module of a backbone with random weights; no file is read or downloaded.

    Args:
        name: as for `build_backbone`.
        image_size: side of the images in pixels.
        stem: first layers of a ResNet, as for `build_backbone`.

    Raises:
        UsageError: the installed libraries do not have this backbone.
    """
    if name.startswith(VECTORS_PREFIX):
        raise UsageError(
            "This run was trained on imported vectors: it has no backbone that could be exported.",
            advice="Export tables or vectors instead.",
        )
    try:
        if name in SCRATCH_BACKBONES:
            return SCRATCH_BACKBONES[name](image_size, stem).module
        if name.startswith(_TORCHVISION):
            return _build_torchvision(name.removeprefix(_TORCHVISION))
        if SEPARATOR in name:
            first, second = (build_untrained_backbone(part, image_size) for part in name.split(SEPARATOR, 1))
            return BackbonePair(first, second, UNIT_NORMALIZATION, UNIT_NORMALIZATION)
        if name in INSTALLED_WEIGHTS or name.startswith(_TIMM):
            import timm

            known = INSTALLED_WEIGHTS.get(name)
            architecture = name.removeprefix(_TIMM) if known is None else known.network_name
            options = get_timm_options(architecture)
            module: nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0, **options)
            return module
        if name.startswith(OPEN_CLIP_PREFIX):
            return build_untrained_image_encoder(name)
    except (ValueError, RuntimeError) as error:  # raised by the libraries for an unknown name
        raise UsageError(
            f"backbone={name!r} is not installed ({error}).", advice="Update torchvision and timm."
        ) from None
    raise UsageError(f"backbone={name!r} is unknown to this version.", advice="Update CRLC Studio.")


def _build_torchvision(name: str) -> nn.Module:
    from torchvision import models

    module: nn.Module = models.get_model(name, weights=None, **_PRETRAINED_OPTIONS.get(name, {}))
    remove_classifier(module)
    return module
