"""Backbones by name: torchvision's ResNets and a small residual network, trained from scratch, and pretrained ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from crlc.backbone_catalogue import OPEN_CLIP_PREFIX
from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import UsageError
from crlc.model.class_head import ImageNetClassifier
from crlc.model.pretrained import load_pretrained
from crlc.model.vector_backbone import VectorBackbone, parse_vectors_name
from crlc.model.weights_file import load_weights_file

SMALL_IMAGE_PIXELS = 64
"""Up to this image size a ResNet has a 3x3 stem without stride or pooling, which would lose detail."""

AUTO_STEM, SMALL_STEM, POOLED_STEM = "auto", "small", "pooled"

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SMALL_CHANNELS = (16, 32, 64)


class Backbone(NamedTuple):
    """A module that computes `h`, the length of `h`, and the normalisation of its input."""

    module: nn.Module
    dimensions: int
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.25, 0.25, 0.25)
    """Mean and standard deviation per channel; the default suits networks trained from scratch."""

    identity: str = ""
    """Identifies the pretrained weights; empty for random initialisation."""

    rl_head: dict[str, Tensor] | None = None
    """Weights of the RL-head, if the file contained them (MoCo)."""

    classifier: ImageNetClassifier | None = None
    """Classifier of the pretrained weights; `None` if they have none for ImageNet's 1,000 classes."""


class ResidualBlock(nn.Module):
    """Residual block of two 3x3 convolutions."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        """Create the layers; the shortcut is a 1x1 convolution where the shape changes."""
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels_out)
        self.second = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels_in, H, W) to (B, channels_out, H / stride, W / stride)."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def build_small_net(_size: int, _stem: str = AUTO_STEM) -> Backbone:
    """Build a network of three residual blocks with 16, 32 and 64 channels, which a CPU can train in a minute."""
    first, second, third = _SMALL_CHANNELS
    layers = nn.Sequential(
        nn.Conv2d(3, first, 3, 1, 1, bias=False),
        nn.BatchNorm2d(first),
        nn.ReLU(),
        ResidualBlock(first, first, 1),
        ResidualBlock(first, second, 2),
        ResidualBlock(second, third, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Backbone(layers, third)


def build_resnet(name: str, image_size: int, stem: str = AUTO_STEM) -> Backbone:
    """Build a torchvision ResNet with random weights and without its classifier.

    Args:
        name: resnet18, resnet34 or resnet50.
        image_size: side of the images in pixels; it determines the stem `auto` (see `SMALL_IMAGE_PIXELS`).
        stem: small (3x3 convolution), pooled (3x3 convolution and 2x2 pooling, as SCAN on STL10), large (torchvision's
            7x7 convolution with stride 2 and 3x3 pooling), or auto (small or large by the image size).
    """
    import torchvision

    module = getattr(torchvision.models, name)(weights=None)
    dimensions = module.fc.in_features
    module.fc = nn.Identity()
    if stem == AUTO_STEM and image_size <= SMALL_IMAGE_PIXELS:
        stem = SMALL_STEM
    if stem in (SMALL_STEM, POOLED_STEM):
        module.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(module.conv1.weight, mode="fan_out", nonlinearity="relu")
        module.maxpool = nn.Identity() if stem == SMALL_STEM else nn.MaxPool2d(2, 2, 1)
    return Backbone(module, dimensions)


SCRATCH_BACKBONES: dict[str, Callable[[int, str], Backbone]] = {
    "small": build_small_net,
    "resnet18": partial(build_resnet, "resnet18"),
    "resnet34": partial(build_resnet, "resnet34"),
    "resnet50": partial(build_resnet, "resnet50"),
}
"""Backbones trained from scratch: functions of the image size and the stem, by name."""


def build_backbone(name: str, image_size: int, weights: str = "", stem: str = AUTO_STEM) -> Backbone:
    """Build a backbone by name.

    Args:
        name: small, resnet18, resnet34, resnet50 (from scratch); default, torchvision/NAME, timm/NAME,
            open_clip/NAME (pretrained); vectors/LENGTH-DIGEST (imported vectors).
        image_size: side of the images in pixels.
        weights: path of a checkpoint for one of the ResNets or an open_clip/NAME; empty for none.
        stem: first layers of a ResNet; see `build_resnet`.

    Raises:
        UsageError: the name is unknown, or the weights do not fit.
        SourceError: the pretrained weights cannot be loaded or downloaded.
    """
    if name in SCRATCH_BACKBONES:
        backbone = SCRATCH_BACKBONES[name](image_size, stem)
        if not weights:
            return backbone
        if not name.startswith("resnet"):
            raise UsageError(f"weights={weights!r} is not allowed with backbone={name!r}: choose a ResNet.")
        loaded = load_weights_file(Path(weights), backbone.module)
        return backbone._replace(mean=IMAGENET_MEAN, std=IMAGENET_STD, identity=loaded.identity, rl_head=loaded.rl_head)
    if weights and not name.startswith(OPEN_CLIP_PREFIX):
        raise UsageError(f"weights={weights!r} is not allowed with backbone={name!r}, which has its own weights.")
    if name.startswith(VECTORS_PREFIX):
        dimensions, identity = parse_vectors_name(name)
        return Backbone(VectorBackbone(), dimensions, identity=identity)
    found = load_pretrained(name, weights)
    return Backbone(found.module, found.dimensions, found.mean, found.std, found.identity, classifier=found.classifier)
