"""Image-text models of open_clip: an image encoder as a backbone, and the text encoder of the same space.

A model is named `open_clip/ARCHITECTURE:WEIGHTS`, whose weights are in the cache of the Hugging Face hub or are
downloaded, or `open_clip/ARCHITECTURE` with a local weights file. If the configuration of a model lies beside the local
file (`open_clip_config.json`, as on the hub), it replaces the architecture of the name.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crlc.arrays import FloatArray
from crlc.backbone_catalogue import OPEN_CLIP_FILES, OPEN_CLIP_INSTALL, OPEN_CLIP_PREFIX
from crlc.errors import SourceError, UsageError
from crlc.model.downloads import load_hub_file
from crlc.model.weights_file import build_identity, compute_sha256
from crlc.paths import to_printable

_CONFIG_FILE = "open_clip_config.json"
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
_MAX_REASON_CHARACTERS = 160


class _Weights(NamedTuple):
    """Location of the weights of a model, and the options of its network."""

    network: str
    """Architecture, or `local-dir:` and a folder with a configuration."""

    file: Path
    options: dict[str, Any]
    identity: str


class ImageEncoderModule(nn.Module):
    """Image encoder of an image-text model; its vectors can be compared with those of the text encoder."""

    def __init__(self, visual: nn.Module) -> None:
        """Store the image part of the model."""
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (B, 3, H, W) to vectors (B, d)."""
        found = self.visual(images)
        vectors: Tensor = found[0] if isinstance(found, tuple) else found
        return vectors


class ImageTextBackbone(NamedTuple):
    """Image encoder with the size and normalisation of its images."""

    module: ImageEncoderModule
    mean: Sequence[float]
    std: Sequence[float]
    image_size: int
    identity: str


class TextEncoder:
    """Text encoder of an image-text model."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        """Store the model without its image part, and its tokenizer."""
        model.visual = None
        self._model, self._tokenizer = model, tokenizer
        self.scale = float(model.logit_scale.detach().exp())
        """Factor of cosine similarities before a softmax over texts."""

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return a unit vector for each text, (T, d)."""
        vectors: FloatArray = self._model.encode_text(self._tokenizer(list(texts)), normalize=True).float().numpy()
        return vectors


def load_image_encoder(name: str, weights: str = "") -> ImageTextBackbone:
    """Load the image encoder of a model.

    Args:
        name: name of the model, which begins with `open_clip/`.
        weights: path of a local weights file; empty for the weights in the name.

    Raises:
        UsageError: the architecture or its weights are unknown, or the local file cannot be used.
        SourceError: open_clip is not installed, or the weights are missing and cannot be downloaded, or damaged.
    """
    found = _find_weights(name, weights)
    model = _load_model(found)
    cfg = _import_open_clip().get_model_preprocess_cfg(model)
    size = cfg["size"][0] if isinstance(cfg["size"], tuple | list) else cfg["size"]
    mean, std = (found.options.get(key) or cfg[key] for key in ("mean", "std"))
    return ImageTextBackbone(ImageEncoderModule(model.visual), mean, std, int(size), found.identity)


@lru_cache(maxsize=1)
def load_text_encoder(name: str, weights: str = "") -> TextEncoder:
    """Load the text encoder of a model; arguments and errors as for `load_image_encoder`."""
    found = _find_weights(name, weights)
    model = _load_model(found)
    try:
        tokenizer = _import_open_clip().get_tokenizer(found.network)
    except Exception as error:  # some architectures need a tokenizer of another library
        raise SourceError(f"The tokenizer of {name} cannot be loaded ({_describe(error)}).") from error
    return TextEncoder(model, tokenizer)


def build_untrained_image_encoder(name: str) -> ImageEncoderModule:
    """Build the image encoder of a model with random weights; no file is read.

    Raises:
        UsageError: the architecture is unknown.
        SourceError: open_clip is not installed.
    """
    architecture, _, tag = name.removeprefix(OPEN_CLIP_PREFIX).partition(":")
    _require_architecture(name, architecture)
    options = {"quick_gelu": True} if _is_quick_gelu(architecture, tag) else {}
    return ImageEncoderModule(_create_network(architecture, options).visual)


def _find_weights(name: str, weights: str) -> _Weights:
    architecture, _, tag = name.removeprefix(OPEN_CLIP_PREFIX).partition(":")
    if weights:
        return _find_local_weights(name, architecture, tag, Path(weights))
    _require_architecture(name, architecture)
    open_clip = _import_open_clip()
    known = open_clip.get_pretrained_cfg(architecture, tag) if tag else {}
    repository = str(known.get("hf_hub") or "")
    if not repository:
        tags = open_clip.list_pretrained_tags_by_model(architecture)
        raise UsageError(
            f"backbone={name!r} has no known weights.",
            advice=f"Choose {OPEN_CLIP_PREFIX}{architecture}:{tags[0]}, or a local weights file."
            if tags
            else "Choose a local weights file.",
        )
    owner, project, file = f"{repository.strip('/')}/".split("/", 2)
    names = (file.rstrip("/"),) if file.rstrip("/") else OPEN_CLIP_FILES
    found = load_hub_file(name, f"{owner}/{project}", names)
    options = {key: known[key] for key in ("mean", "std") if known.get(key)}
    if _is_quick_gelu(architecture, tag):
        options["quick_gelu"] = True
    identity = build_identity(f"open_clip-{architecture}-{tag}", compute_sha256(found))
    return _Weights(architecture, found, options, identity)


def _find_local_weights(name: str, architecture: str, tag: str, file: Path) -> _Weights:
    shown = to_printable(str(file))
    if tag:
        raise UsageError(
            f"weights={shown} is not allowed with backbone={name!r}, which names its weights.",
            advice=f"Choose backbone={OPEN_CLIP_PREFIX}{architecture}.",
        )
    if not file.is_file() or file.suffix not in _SUFFIXES:
        raise UsageError(
            f"The weights file {shown} cannot be used: it must be a file that ends in {', '.join(_SUFFIXES)}.",
            advice="Check the path.",
        )
    network = f"local-dir:{file.parent}" if (file.parent / _CONFIG_FILE).is_file() else architecture
    if network == architecture:
        _require_architecture(name, architecture)
    identity = build_identity(f"open_clip-{architecture}-{file.stem}", compute_sha256(file))
    return _Weights(network, file, {}, identity)


def _load_model(found: _Weights) -> Any:
    """Create the network, and load its weights without executing code from the file."""
    open_clip, shown = _import_open_clip(), to_printable(str(found.file))
    try:
        model = _create_network(found.network, found.options)
        open_clip.load_checkpoint(model, str(found.file), weights_only=True)
    except Exception as error:  # damaged files make the readers raise errors of any type
        raise SourceError(
            f"The weights in {shown} cannot be used ({_describe(error)}).",
            advice="Choose the architecture that the file was saved from, or remove the file and download it again.",
        ) from error
    return model.eval()


def _create_network(network: str, options: dict[str, Any]) -> Any:
    open_clip, quick_gelu = _import_open_clip(), bool(options.get("quick_gelu"))
    logging.disable(logging.WARNING)  # open_clip warns of random weights, which are loaded next
    try:
        return open_clip.create_model(network, load_weights=False, force_quick_gelu=quick_gelu)
    finally:
        logging.disable(logging.NOTSET)


def _require_architecture(name: str, architecture: str) -> None:
    known = _import_open_clip().list_models()
    if architecture not in known:
        near = difflib.get_close_matches(architecture, known, n=1)
        raise UsageError(
            f"backbone={name!r} is unknown: open_clip has no architecture {architecture!r}.",
            advice=f"Did you mean {OPEN_CLIP_PREFIX}{near[0]}?" if near else "",
        )


def _is_quick_gelu(architecture: str, tag: str) -> bool:
    """Return whether weights were trained with another activation than the architecture has by default."""
    return bool(tag and _import_open_clip().get_pretrained_cfg(architecture, tag).get("quick_gelu"))


def _import_open_clip() -> Any:
    try:
        import open_clip
    except ImportError:
        raise SourceError(
            "Image-text models need the package open_clip_torch, which is not installed.",
            advice=f"Install it with: {OPEN_CLIP_INSTALL}",
        ) from None
    return open_clip


def _describe(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".")[:_MAX_REASON_CHARACTERS] if lines else type(error).__name__
