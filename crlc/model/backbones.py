"""Backbones trained from scratch: torchvision's ResNets, and a small residual net for CPUs and tiny images."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional

SMALL_IMAGE = 64
"""Up to this size a ResNet gets a 3x3 stem without stride or pooling: there is nothing to throw away."""

_SMALL_CHANNELS = (16, 32, 64)


class Backbone(NamedTuple):
    """A module that gives `h`, and the length of `h`."""

    module: nn.Module
    dimensions: int


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


BACKBONES: dict[str, Callable[[int], Backbone]] = {
    "small": small_net,
    "resnet18": lambda size: resnet("resnet18", size),
    "resnet34": lambda size: resnet("resnet34", size),
    "resnet50": lambda size: resnet("resnet50", size),
}
"""By name: a function from the image size to a backbone."""
