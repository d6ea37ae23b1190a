"""Backbones by name. From scratch: torchvision's ResNets, and a small residual net for CPUs and tiny images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from crlc.errors import UsageError
from crlc.model.pretrained import load_pretrained
from crlc.model.weights_file import load_weights_file

SMALL_IMAGE = 64
"""Up to this size a ResNet gets a 3x3 stem without stride or pooling: there is nothing to throw away."""

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_SMALL_CHANNELS = (16, 32, 64)


class Backbone(NamedTuple):
    """A module that gives `h`, the length of `h`, and the colours it expects."""

    module: nn.Module
    dimensions: int
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.25, 0.25, 0.25)
    """By default what a network trained from scratch gets: about zero mean and unit spread."""

    identity: str = ""
    """Names exactly these pretrained weights; empty for weights of chance."""

    rl_head: dict[str, Tensor] | None = None
    """Weights for the RL-head, where a file had them (MoCo)."""


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        """Make the layers; the shortcut is a 1x1 convolution where the shape changes."""
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
        """(B, channels_in, H, W) to (B, channels_out, H / stride, W / stride)."""
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


def small_net(_: int) -> Backbone:
    """Three residual blocks of 16, 32 and 64 channels: what a CPU can train in a minute."""
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


def resnet(name: str, image_size: int) -> Backbone:
    """One of torchvision's ResNets, untrained, without its classifier."""
    import torchvision

    module = getattr(torchvision.models, name)(weights=None)
    dimensions = module.fc.in_features
    module.fc = nn.Identity()
    if image_size <= SMALL_IMAGE:
        module.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(module.conv1.weight, mode="fan_out", nonlinearity="relu")
        module.maxpool = nn.Identity()
    return Backbone(module, dimensions)


SCRATCH_BACKBONES: dict[str, Callable[[int], Backbone]] = {
    "small": small_net,
    "resnet18": lambda size: resnet("resnet18", size),
    "resnet34": lambda size: resnet("resnet34", size),
    "resnet50": lambda size: resnet("resnet50", size),
}
"""Trained from scratch, by name: a function from the image size to a backbone."""


def make_backbone(name: str, image_size: int, weights: str = "") -> Backbone:
    """A backbone by name.

    Args:
        name: small, resnet18, resnet34, resnet50 (from scratch); default, torchvision/NAME, timm/NAME (pretrained).
        image_size: side of the images it will see.
        weights: a local checkpoint file for one of the ResNets; empty for none.

    Raises:
        UsageError: an unknown name, or weights that do not fit.
        SourceError: pretrained weights that cannot be had.
    """
    if name in SCRATCH_BACKBONES:
        backbone = SCRATCH_BACKBONES[name](image_size)
        if not weights:
            return backbone
        if not name.startswith("resnet"):
            raise UsageError(f"weights={weights!r} cannot be used with backbone={name!r}: choose a ResNet.")
        loaded = load_weights_file(Path(weights), backbone.module)
        return backbone._replace(mean=IMAGENET_MEAN, std=IMAGENET_STD, identity=loaded.identity, rl_head=loaded.rl_head)
    if weights:
        raise UsageError(f"weights={weights!r} cannot be used with backbone={name!r}: that brings its own weights.")
    found = load_pretrained(name)
    return Backbone(found.module, found.dimensions, found.mean, found.std, found.identity)
