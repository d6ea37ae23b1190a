"""Backbones by name without weights: for files that hold all of them."""

from __future__ import annotations

from typing import Any

from torch import nn

from crlc.errors import UsageError
from crlc.model.backbones import SCRATCH_BACKBONES
from crlc.model.pretrained import DEFAULT, remove_classifier

_TORCHVISION, _TIMM = "torchvision/", "timm/"
_DEFAULT_ARCHITECTURE = "tf_efficientnet_lite0"
_AS_PRETRAINED: dict[str, dict[str, Any]] = {
    "googlenet": {"transform_input": True, "aux_logits": False, "init_weights": False},
    "inception_v3": {"transform_input": True, "init_weights": False},
}
"""torchvision makes these otherwise when it is asked for weights."""


def untrained_backbone(name: str, image_size: int) -> nn.Module:
    """The module of a backbone with any weights; nothing is downloaded or looked for.

    Args:
        name: as `make_backbone` takes it.
        image_size: side of the images it will see.

    Raises:
        UsageError: the installed libraries know no such backbone.
    """
    try:
        if name in SCRATCH_BACKBONES:
            return SCRATCH_BACKBONES[name](image_size).module
        if name.startswith(_TORCHVISION):
            return _from_torchvision(name.removeprefix(_TORCHVISION))
        if name == DEFAULT or name.startswith(_TIMM):
            import timm

            architecture = _DEFAULT_ARCHITECTURE if name == DEFAULT else name.removeprefix(_TIMM)
            module: nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0)
            return module
    except (ValueError, RuntimeError) as error:  # of the libraries, for a name that they do not have
        raise UsageError(f"There is no backbone {name!r} here ({error}). Update torchvision and timm.") from None
    raise UsageError(f"There is no backbone {name!r}. Update CRLC Studio.")


def _from_torchvision(name: str) -> nn.Module:
    from torchvision import models

    module: nn.Module = models.get_model(name, weights=None, **_AS_PRETRAINED.get(name, {}))
    remove_classifier(module)
    return module
