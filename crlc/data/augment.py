"""Views: augmented copies of a whole batch at once, on the batch's own device, each image with its own dice.

Crop, flip, rotation, shear, zoom and shift are one affine warp; brightness, contrast, saturation, hue and
grey are one colour matrix. So an image is resampled once and recoloured once, whatever the recipe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

GREY_WEIGHTS = (0.2989, 0.587, 0.114)  # ITU-R 601, as torchvision has them
GLYPH_SIZE = 32
"""Grey images up to this size are taken for glyphs."""

# Hue is a rotation in the plane of I and Q of the YIQ colour space.
_TO_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass(frozen=True)
class Recipe:
    """How far views may differ. Ranges are symmetric; zero switches a change off."""

    crop: tuple[float, float] = (1.0, 1.0)
    """Share of the area that a random crop keeps."""

    crop_ratio: float = 4 / 3
    """Widest aspect of a crop, and one over the narrowest."""

    flip: float = 0.0
    """Probability of a horizontal flip."""

    rotation: float = 0.0
    """Degrees, either way."""

    shear: float = 0.0
    zoom: float = 0.0
    """Natural logarithm of the largest enlargement, for each axis by itself."""

    shift: float = 0.0
    """Share of the side, either way, along each axis."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    """Share of the colour circle, either way."""

    jitter: float = 0.0
    """Probability that brightness, contrast, saturation and hue change at all."""

    grey: float = 0.0
    """Probability of losing all colour."""

    blur: float = 0.0
    """Probability of a Gaussian blur of 0.1 to 2 pixels (at 224; less for smaller images)."""

    gamma: float = 0.0
    """Natural logarithm of the largest exponent."""

    noise: float = 0.0
    """Standard deviation, where white is 1."""


class Share(NamedTuple):
    """Which rows of a batch that several processes share are here: `total` throws are made, these are used."""

    start: int
    total: int


PHOTO = Recipe(
    crop=(0.2, 1.0), flip=0.5, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8, grey=0.2
)  # fmt: skip
PHOTO_BLURRED = Recipe(**{**vars(PHOTO), "blur": 0.5})
GLYPH = Recipe(rotation=20, shear=0.3, zoom=math.log(1.25), shift=0.12, gamma=0.5, noise=0.05)
RECIPES = {"photo": PHOTO, "photo-blur": PHOTO_BLURRED, "glyph": GLYPH, "none": Recipe()}


def suitable_recipe(sample: Tensor) -> str:
    """The recipe for images like these uint8 ones, (N, H, W, 3): small and grey are glyphs, the rest photographs."""
    small = max(sample.shape[1:3]) <= GLYPH_SIZE
    grey = bool((sample[..., 0] == sample[..., 1]).all() and (sample[..., 1] == sample[..., 2]).all())
    return "glyph" if small and grey else "photo"


def to_images(pixels: Tensor) -> Tensor:
    """Stored bytes, (B, H, W, 3), as floats from 0 to 1, (B, 3, H, W), channels last in memory."""
    return pixels.permute(0, 3, 1, 2).float().div_(255)


def make_view(images: Tensor, recipe: Recipe, generator: torch.Generator, share: Share | None = None) -> Tensor:
    """One view of every image.

    Args:
        images: (B, 3, H, W), from 0 to 1.
        recipe: how far it may differ.
        generator: the only source of chance, on the CPU.
        share: where these images stand in a batch of several processes; none if they are all of it.

    Returns:
        (B, 3, H, W), from 0 to 1 but for the noise.
    """
    with torch.autocast(images.device.type, enabled=False):  # half a pixel is too coarse for a grid
        return _make_view(images, recipe, _Dice(len(images), generator, images.device, share))


def _make_view(images: Tensor, recipe: Recipe, dice: _Dice) -> Tensor:
    view = warp(images, _random_warp(recipe, dice))
    if recipe.jitter or recipe.grey:
        matrix, offset = _random_colour(view, recipe, dice)
        view = recolour(view, matrix, offset)
    if recipe.gamma:
        view = view.clamp(1e-6, 1) ** dice.between(-recipe.gamma, recipe.gamma).exp()[:, None, None, None]
    if recipe.blur:
        largest = max(0.3, 2.0 * images.shape[-1] / 224)
        sigma = dice.between(0.1, largest) * dice.happens(recipe.blur)
        view = blur(view, sigma, largest)
    if recipe.noise:
        view = view + recipe.noise * dice.normal(view.shape[1:])
    return view


# ---- the changes themselves


def affine(
    *,
    angle: Tensor | float = 0.0,
    shear: Tensor | float = 0.0,
    zoom: tuple[Tensor | float, Tensor | float] = (1.0, 1.0),
    shift: tuple[Tensor | float, Tensor | float] = (0.0, 0.0),
    like: Tensor,
) -> Tensor:
    """Maps from output to input coordinates, (B, 2, 3), in units of half the side.

    Args:
        angle: degrees, anticlockwise.
        shear: how far x moves for a move of one in y.
        zoom: enlargement along x and y.
        shift: move along x and y, as a share of the side.
        like: a tensor of length B, for number and device.
    """
    angle, shear, zoom_x, zoom_y, shift_x, shift_y = (
        torch.as_tensor(value, dtype=torch.float32, device=like.device).expand(len(like))
        for value in (angle, shear, *zoom, *shift)
    )
    radians = torch.deg2rad(angle)
    cosine, sine = radians.cos(), radians.sin()
    # Input = Z⁻¹ · S · R · (output - shift)
    row_x = torch.stack([cosine + shear * sine, -sine + shear * cosine], dim=1) / zoom_x[:, None]
    row_y = torch.stack([sine, cosine], dim=1) / zoom_y[:, None]
    linear = torch.stack([row_x, row_y], dim=1)
    moved = linear @ (-2 * torch.stack([shift_x, shift_y], dim=1))[:, :, None]
    return torch.cat([linear, moved], dim=2)


def crop_to(left: Tensor, top: Tensor, width: Tensor, height: Tensor, flipped: Tensor) -> Tensor:
    """Maps that enlarge a box, given in shares of the side, to the whole image; mirrored where `flipped` is 1."""
    zero = torch.zeros_like(width)
    mirror = 1 - 2 * flipped
    row_x = torch.stack([width * mirror, zero, 2 * left + width - 1], dim=1)
    row_y = torch.stack([zero, height, 2 * top + height - 1], dim=1)
    return torch.stack([row_x, row_y], dim=1)


def warp(images: Tensor, maps: Tensor | None) -> Tensor:
    """Resample every image along its map, (B, 2, 3); beyond the edge the edge goes on."""
    if maps is None:
        return images
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def recolour(images: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """Every pixel of an image times its matrix, (B, 3, 3), plus its offset, (B, 3); kept from 0 to 1."""
    coloured = torch.baddbmm(offset[:, :, None], matrix, images.flatten(2))
    return coloured.view(images.shape).clamp_(0, 1)


def colour_matrix(
    means: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor, grey: Tensor
) -> tuple[Tensor, Tensor]:
    """Brightness, contrast, saturation, hue and loss of colour, in this order, as one matrix and offset.

    Args:
        means: mean colour of each image, (B, 3); contrast is about the mean grey.
        brightness: factors, (B,).
        contrast: factors, (B,).
        saturation: factors, (B,).
        hue: shares of the colour circle, (B,).
        grey: 1 to lose all colour, 0 to keep it, (B,).
    """
    weights = torch.tensor(GREY_WEIGHTS, device=means.device)
    identity = torch.eye(3, device=means.device)
    to_grey = weights.expand(3, 3)

    def blend(share: Tensor) -> Tensor:
        return share[:, None, None] * identity + (1 - share)[:, None, None] * to_grey

    bright = (brightness * contrast)[:, None, None] * identity
    offset = ((1 - contrast) * brightness * (means @ weights))[:, None].expand(-1, 3)
    matrix = blend(1 - grey) @ _hue_rotation(hue) @ blend(saturation)
    return matrix @ bright, (matrix @ offset[:, :, None])[:, :, 0]


def blur(images: Tensor, sigma: Tensor, largest: float) -> Tensor:
    """Gaussian blur with a width of its own for every image; 0 leaves it as it is."""
    radius = max(1, math.ceil(3 * largest))
    places = torch.arange(-radius, radius + 1, device=images.device, dtype=torch.float32)
    kernel = torch.exp(-0.5 * (places / sigma.clamp_min(1e-3)[:, None]) ** 2)
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)[:, None]  # (3B, 1, K)
    batch, channels, height, width = images.shape
    flat = images.reshape(1, batch * channels, height, width)
    padded = functional.pad(flat, (radius, radius, 0, 0), mode="reflect" if radius < width else "replicate")
    flat = functional.conv2d(padded, kernel[:, :, None, :], groups=batch * channels)
    padded = functional.pad(flat, (0, 0, radius, radius), mode="reflect" if radius < height else "replicate")
    flat = functional.conv2d(padded, kernel[:, :, :, None], groups=batch * channels)
    return flat.view(images.shape)


def _hue_rotation(hue: Tensor) -> Tensor:
    to_yiq = torch.tensor(_TO_YIQ, device=hue.device)
    turn = -2 * math.pi * hue  # the way in which HSV counts
    zero, one = torch.zeros_like(turn), torch.ones_like(turn)
    rotation = torch.stack([one, zero, zero, zero, turn.cos(), -turn.sin(), zero, turn.sin(), turn.cos()], dim=1).view(
        -1, 3, 3
    )
    back: Tensor = torch.linalg.inv(to_yiq)
    return back @ rotation @ to_yiq


# ---- chance


class _Dice:
    """Throws for every image of a batch, made on the CPU so that every device sees the same."""

    def __init__(self, count: int, generator: torch.Generator, device: torch.device, share: Share | None) -> None:
        start, self._total = share or Share(0, count)
        self._here = slice(start, start + count)
        self._generator, self._device = generator, device

    def between(self, lowest: float, highest: float) -> Tensor:
        return lowest + (highest - lowest) * self._uniform()

    def happens(self, probability: float) -> Tensor:
        return (self._uniform() < probability).float()

    def normal(self, shape: torch.Size) -> Tensor:
        return torch.randn(self._total, *shape, generator=self._generator)[self._here].to(self._device)

    def _uniform(self) -> Tensor:
        return torch.rand(self._total, generator=self._generator)[self._here].to(self._device)


def _random_warp(recipe: Recipe, dice: _Dice) -> Tensor | None:
    crops = recipe.crop != (1.0, 1.0) or recipe.flip > 0
    turns = recipe.rotation or recipe.shear or recipe.zoom or recipe.shift
    maps = _random_crop(recipe, dice) if crops else None
    if not turns:
        return maps
    angle = dice.between(-recipe.rotation, recipe.rotation)
    turned = affine(
        angle=angle,
        shear=dice.between(-recipe.shear, recipe.shear),
        zoom=(dice.between(-recipe.zoom, recipe.zoom).exp(), dice.between(-recipe.zoom, recipe.zoom).exp()),
        shift=(dice.between(-recipe.shift, recipe.shift), dice.between(-recipe.shift, recipe.shift)),
        like=angle,
    )
    return turned if maps is None else _after(maps, turned)


def _after(first: Tensor, second: Tensor) -> Tensor:
    """The map that looks through `second` into what `first` shows."""
    linear = first[:, :, :2] @ second[:, :, :2]
    moved = first[:, :, :2] @ second[:, :, 2:] + first[:, :, 2:]
    return torch.cat([linear, moved], dim=2)


def _random_crop(recipe: Recipe, dice: _Dice) -> Tensor:
    area = dice.between(*recipe.crop)
    ratio = dice.between(-math.log(recipe.crop_ratio), math.log(recipe.crop_ratio)).exp()
    width = (area * ratio).sqrt().clamp_max(1)
    height = (area / ratio).sqrt().clamp_max(1)
    left, top = dice.between(0, 1) * (1 - width), dice.between(0, 1) * (1 - height)
    return crop_to(left, top, width, height, dice.happens(recipe.flip))


def _random_colour(images: Tensor, recipe: Recipe, dice: _Dice) -> tuple[Tensor, Tensor]:
    jitters = dice.happens(recipe.jitter)

    def factor(spread: float) -> Tensor:
        return 1 + jitters * dice.between(-spread, spread)

    return colour_matrix(
        images.mean(dim=(2, 3)),
        factor(recipe.brightness),
        factor(recipe.contrast),
        factor(recipe.saturation),
        jitters * dice.between(-recipe.hue, recipe.hue),
        dice.happens(recipe.grey),
    )
