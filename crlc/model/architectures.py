"""Untrained backbones by name, for model files that contain all weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from crlc.errors import UsageError
from crlc.model.backbones import AUTO_STEM, SCRATCH_BACKBONES
from crlc.model.pretrained import DEFAULT_BACKBONE, remove_classifier

_TORCHVISION, _TIMM = "torchvision/", "timm/"
_DEFAULT_ARCHITECTURE = "tf_efficientnet_lite0"
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
    try:
        if name in SCRATCH_BACKBONES:
            return SCRATCH_BACKBONES[name](image_size, stem).module
        if name.startswith(_TORCHVISION):
            return _build_torchvision(name.removeprefix(_TORCHVISION))
        if name == DEFAULT_BACKBONE or name.startswith(_TIMM):
            import timm

            architecture = _DEFAULT_ARCHITECTURE if name == DEFAULT_BACKBONE else name.removeprefix(_TIMM)
            module: nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0)
            return module
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
