"""Pretrained backbones: those that pip installs, those of torchvision and timm, and pairs of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crlc.backbone_catalogue import DEFAULT_BACKBONE, OPEN_CLIP_PREFIX, TIMM_FILES
from crlc.errors import SourceError, UsageError
from crlc.model.backbone_pair import SEPARATOR, BackbonePair
from crlc.model.class_head import ImageNetClassifier, build_classifier
from crlc.model.downloads import load_hub_file, load_torch_hub_file
from crlc.model.image_text import load_image_encoder
from crlc.model.installed_weights import INSTALLED_WEIGHTS, MEAN, STD, load_installed_network
from crlc.model.weights_file import UnusableWeightsError, build_identity, compute_sha256, read_checkpoint

_TORCHVISION, _TIMM = "torchvision/", "timm/"
_PAIR_LENGTH = 2
_MAX_DYNAMIC_SIZE = 224
"""Usual image size of networks that accept any: DINOv2 was trained at 518 px, which takes 6 times as long."""

_CLASSIFIERS = ("fc", "classifier", "heads", "head")


class PretrainedBackbone(NamedTuple):
    """A pretrained backbone, and the size and normalisation of its input images."""

    module: nn.Module
    """Maps normalised images (B, 3, H, W) to pooled features `h` (B, d), without classifier; in evaluation mode."""

    dimensions: int
    """The length of `h`."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """Normalisation per channel of an image in [0, 1]: (image - mean) / std."""

    image_size: int
    """Usual side of its input images in pixels."""

    identity: str
    """Identifies the weights; usable as a file name."""

    classifier: ImageNetClassifier | None
    """The classifier that was removed; `None` if it is not a linear one of ImageNet's 1,000 classes."""


def load_pretrained(name: str, weights: str = "") -> PretrainedBackbone:
    """Load a pretrained backbone.

    Missing weights are downloaded to the cache of their library.

    Args:
        name: one of `INSTALLED_WEIGHTS`, "torchvision/NAME", "timm/NAME", "open_clip/NAME", or a pair "A+B".
        weights: path of a weights file for an "open_clip/NAME"; empty for its own weights.

    Raises:
        UsageError: the backbone is unknown; the error suggests the most similar name.
        SourceError: the weights are missing and cannot be downloaded, or are damaged.
    """
    if SEPARATOR in name:
        return _load_pair(name)
    if name in INSTALLED_WEIGHTS:
        return _load_installed(name)
    if name.startswith(_TORCHVISION):
        return _load_from_torchvision(name.removeprefix(_TORCHVISION))
    if name.startswith(_TIMM):
        return _load_from_timm(name.removeprefix(_TIMM))
    if name.startswith(OPEN_CLIP_PREFIX):
        found = load_image_encoder(name, weights)
        return _build_backbone(found.module, found.mean, found.std, found.image_size, found.identity, None)
    raise _unknown_backbone(
        "",
        name,
        {model: model for model in INSTALLED_WEIGHTS}
        | {model: _TORCHVISION + model for model in _list_torchvision_names()},
    )


def _load_installed(name: str) -> PretrainedBackbone:
    module, identity, classifier = load_installed_network(name)
    return _build_backbone(module, (MEAN,) * 3, (STD,) * 3, INSTALLED_WEIGHTS[name].image_size, identity, classifier)


def _load_pair(name: str) -> PretrainedBackbone:
    """Load two backbones, whose vectors are concatenated."""
    names = name.split(SEPARATOR)
    if len(names) != _PAIR_LENGTH or names[0] == names[1]:
        raise UsageError(
            f"backbone={name!r} is not allowed: {SEPARATOR} joins two different pretrained backbones.",
            advice=f"Choose a pair such as {DEFAULT_BACKBONE}{SEPARATOR}efficientnet-lite1.",
        )
    first, second = map(load_pretrained, names)
    module = BackbonePair(first.module, second.module, (first.mean, first.std), (second.mean, second.std))
    size = max(first.image_size, second.image_size)
    identity = f"{first.identity}{SEPARATOR}{second.identity}"
    return _build_backbone(module, first.mean, first.std, size, identity, None)  # the vectors have unit length


def _load_from_torchvision(name: str) -> PretrainedBackbone:
    from torchvision import models

    known = _list_torchvision_names()
    if name not in known:
        raise _unknown_backbone(_TORCHVISION, name, {model: _TORCHVISION + model for model in known})
    weights = models.get_model_weights(name).DEFAULT
    file = load_torch_hub_file(_TORCHVISION + name, weights.url)
    module = _create_from(file, lambda: models.get_model(name, weights=weights))
    layer = remove_classifier(module)
    classifier = build_classifier(layer.weight, layer.bias) if isinstance(layer, nn.Linear) else None
    images = weights.transforms()
    named = build_identity(f"torchvision-{name}", compute_sha256(file))
    return _build_backbone(module, images.mean, images.std, images.crop_size[0], named, classifier)


def _list_torchvision_names() -> list[str]:
    """Return the names of torchvision's classifiers; models for other tasks do not output a single vector."""
    from torchvision import models

    return list(models.list_models(module=models))


def remove_classifier(module: nn.Module) -> nn.Module:
    """Replace the last layer of the classifier with the identity, and return it; pooling and norms are kept."""
    for attribute in _CLASSIFIERS:
        part = getattr(module, attribute, None)
        if isinstance(part, nn.Module):
            layers = [path for path, layer in part.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
            parent, _, leaf = f"{attribute}.{layers[-1]}".rstrip(".").rpartition(".")
            layer: nn.Module = getattr(module.get_submodule(parent), leaf)
            setattr(module.get_submodule(parent), leaf, nn.Identity())
            return layer
    raise UsageError(
        f"{type(module).__name__} has no classifier that could be removed.", advice="Choose another backbone."
    )


def _load_from_timm(name: str) -> PretrainedBackbone:
    import timm
    from timm.data import resolve_model_data_config

    if not timm.is_model_pretrained(name):
        raise _unknown_backbone(_TIMM, name, {model: _TIMM + model for model in _list_timm_names()})
    weights = timm.get_pretrained_cfg(name)
    if weights.hf_hub_id:
        files = (weights.hf_hub_filename,) if weights.hf_hub_filename else TIMM_FILES
        file = load_hub_file(_TIMM + name, weights.hf_hub_id, files)
    else:
        file = load_torch_hub_file(_TIMM + name, weights.url)
    overlay = {"file": str(file), "custom_load": False}
    options = get_timm_options(name)
    module = _create_from(
        file, lambda: timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay, **options)
    )
    images = resolve_model_data_config(module)
    size = images["input_size"][-1]
    size = min(size, _MAX_DYNAMIC_SIZE) if options else size
    named = build_identity(f"timm-{name}", compute_sha256(file))
    classifier = _find_timm_classifier(_read(file, ""), weights)
    return _build_backbone(module, images["mean"], images["std"], size, named, classifier)


def get_timm_options(name: str) -> dict[str, Any]:
    """Return the options with which timm creates a network: vision transformers accept images of any size.

    Unknown networks have none: timm names them in its own error when it creates them.
    """
    import timm

    is_transformer = name.partition(".")[0] in timm.list_models(module="vision_transformer")
    return {"dynamic_img_size": True} if is_transformer else {}


def _find_timm_classifier(tensors: Mapping[str, Any], weights: Any) -> ImageNetClassifier | None:
    """Return the classifier in a weights file under timm's name for it; files of other libraries may name it otherwise.

    Args:
        tensors: content of the file.
        weights: timm's description of the weights.
    """
    found = [tensors.get(f"{weights.classifier}.{part}") for part in ("weight", "bias")]
    # Networks trained on ImageNet-21k have 21,841 outputs, and those fine-tuned on 1,000 other classes a label file.
    if weights.label_names is not None:
        return None
    weight, bias = (one if isinstance(one, Tensor) else None for one in found)
    return build_classifier(weight, bias)


def _list_timm_names() -> list[str]:
    """Return the names of all timm models, without and with the tag of their weights (resnet50, resnet50.a1_in1k)."""
    import timm

    with_tags = timm.list_models(pretrained=True)
    return [*dict.fromkeys(name.partition(".")[0] for name in with_tags), *with_tags]


def _create_from(file: Path, make: Callable[[], nn.Module]) -> nn.Module:
    """Check that a cached file executes no code, then let a library create the network from it."""
    advice = f"Remove {file.name} there and try again to download it."
    _read(file, advice)
    try:
        return make()
    except RuntimeError as error:  # raised by load_state_dict
        raise SourceError(f"The weights in {file} do not fit the network of that name.", advice=advice) from error


def _read(file: Path, advice: str) -> Any:
    try:
        return read_checkpoint(file)
    except UnusableWeightsError as error:
        raise SourceError(
            f"The weights in {file} cannot be used: {error}", advice=f"{error.advice} {advice}".strip()
        ) from error


def _unknown_backbone(prefix: str, name: str, known: Mapping[str, str]) -> UsageError:
    """Return the error for an unknown name.

    Args:
        prefix: prefix of the library, such as `timm/`.
        name: the unknown name, without prefix.
        known: full names, by name without prefix: a common prefix would make all names similar.
    """
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {known[near[0]]}?" if near else f"Choose {DEFAULT_BACKBONE}, torchvision/NAME or timm/NAME."
    return UsageError(f"backbone={prefix + name!r} is unknown.", advice=hint)


def _build_backbone(
    module: nn.Module,
    mean: Iterable[float],
    std: Iterable[float],
    image_size: int,
    name: str,
    classifier: ImageNetClassifier | None,
) -> PretrainedBackbone:
    """Check that a module outputs one vector per image, and return it as a backbone."""
    module.eval()
    with torch.no_grad():
        h = module(torch.zeros(1, 3, image_size, image_size))
    if not isinstance(h, Tensor) or h.dim() != 2:  # noqa: PLR2004
        given = f"a tensor of shape {tuple(h.shape)}" if isinstance(h, Tensor) else f"a {type(h).__name__}"
        raise UsageError(
            f"{name.partition('@')[0]} outputs {given} for an image, not one vector.", advice="Choose another backbone."
        )
    if classifier is not None and classifier.weight.shape[1] != h.shape[1]:
        classifier = None  # a layer between the features and the classifier was removed with it
    return PretrainedBackbone(module, h.shape[1], _to_rgb(mean), _to_rgb(std), image_size, name, classifier)


def _to_rgb(values: Iterable[float]) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue
