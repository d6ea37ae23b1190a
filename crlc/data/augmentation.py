"""Augmentation: random views of a whole batch, computed on its device, with separate random draws for each image.

Crop, flip, rotation, shear, zoom and shift are one affine warp; brightness, contrast, saturation, hue and grey are one
colour matrix: an image is resampled once and recoloured once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

GREY_WEIGHTS = (0.2989, 0.587, 0.114)  # ITU-R 601, as in torchvision
MAX_GLYPH_SIZE = 32
"""Largest side in pixels at which grey images are treated as glyphs."""

_CROP_TRIES = 10  # as in torchvision

# Hue is a rotation in the plane of I and Q of the YIQ colour space.
_TO_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass(frozen=True)
class AugmentationRecipe:
    """Ranges and probabilities of the augmentations. Ranges are symmetric; zero disables an augmentation."""

    crop: tuple[float, float] = (1.0, 1.0)
    """Minimum and maximum fraction of the area that a random crop keeps."""

    crop_ratio: float = 4 / 3
    """Largest aspect ratio of a crop; the smallest is its inverse."""

    flip: float = 0.0
    """Probability of a horizontal flip."""

    rotation: float = 0.0
    """Maximum angle in degrees, in both directions."""

    shear: float = 0.0
    """Maximum shift of x per unit of y, in both directions."""

    zoom: float = 0.0
    """Natural logarithm of the largest enlargement, drawn for each axis separately."""

    shift: float = 0.0
    """Maximum shift along each axis, as a fraction of the side, in both directions."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    """Brightness, contrast and saturation: maximum difference of the factor from 1, in both directions."""

    hue: float = 0.0
    """Maximum change of hue, as a fraction of the colour circle, in both directions."""

    jitter: float = 0.0
    """Probability that brightness, contrast, saturation and hue change."""

    grey: float = 0.0
    """Probability of conversion to grey."""

    blur: float = 0.0
    """Probability of a Gaussian blur of 0.1 to 2 pixels (at 224; less for smaller images)."""

    gamma: float = 0.0
    """Natural logarithm of the largest exponent."""

    noise: float = 0.0
    """Standard deviation of the noise, where white is 1."""


class BatchSlice(NamedTuple):
    """Rows of a shared batch for one process, which makes `total` random draws and uses those from `start` on."""

    start: int
    total: int


class WholeGeometry(NamedTuple):
    """Aspect ratios of whole images that were stretched to squares, and the size of their views."""

    aspects: Tensor
    """Width divided by height of each original, (B,)."""

    size: int
    """Side of a view in pixels."""


PHOTO = AugmentationRecipe(
    crop=(0.2, 1.0), flip=0.5, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, jitter=0.8, grey=0.2
)  # fmt: skip
"""The augmentations of the paper, with the values of the authors' code."""

PHOTO_BLURRED = AugmentationRecipe(**{**vars(PHOTO), "blur": 0.5})
"""`PHOTO` with the Gaussian blur that is used for the ImageNet subsets."""

GLYPH = AugmentationRecipe(rotation=20, shear=0.3, zoom=math.log(1.25), shift=0.12, gamma=0.5, noise=0.05)
"""For digits and other small grey images, which flips and crops do not suit; not from the paper."""

RECIPES = {"photo": PHOTO, "photo-blur": PHOTO_BLURRED, "glyph": GLYPH, "none": AugmentationRecipe()}


def choose_recipe(sample: Tensor) -> str:
    """Return the recipe name for a uint8 sample of images, (N, H, W, 3): `glyph` if small and grey, else `photo`."""
    small = max(sample.shape[1:3]) <= MAX_GLYPH_SIZE
    grey = bool((sample[..., 0] == sample[..., 1]).all() and (sample[..., 1] == sample[..., 2]).all())
    return "glyph" if small and grey else "photo"


def to_images(pixels: Tensor) -> Tensor:
    """Convert stored bytes, (B, H, W, 3), to floats from 0 to 1, (B, 3, H, W), channels last in memory."""
    return pixels.permute(0, 3, 1, 2).float().div_(255)


def make_view(
    images: Tensor,
    recipe: AugmentationRecipe,
    generator: torch.Generator,
    batch_slice: BatchSlice | None = None,
    whole: WholeGeometry | None = None,
) -> Tensor:
    """Return one view (augmented copy) of every image.

    Args:
        images: (B, 3, H, W), from 0 to 1.
        recipe: ranges and probabilities of the augmentations.
        generator: the only source of randomness, on the CPU.
        batch_slice: position of these images in a batch shared by several processes; `None` for a whole batch.
        whole: aspect ratios of the images if they are whole images stretched to squares; `None` for square images.

    Returns:
        (B, 3, H, W), or (B, 3, size, size) of whole images, from 0 to 1 except for the noise.
    """
    with torch.autocast(images.device.type, enabled=False):  # half precision is too coarse for the sampling grid
        return _make_view(images, recipe, _RandomDraws(len(images), generator, images.device, batch_slice), whole)


def _make_view(images: Tensor, recipe: AugmentationRecipe, draws: _RandomDraws, whole: WholeGeometry | None) -> Tensor:
    size = images.shape[-1] if whole is None else whole.size
    view = warp(images, _draw_warp(recipe, draws, None if whole is None else whole.aspects), size)
    if recipe.jitter or recipe.grey:
        matrix, offset = _draw_colour(view, recipe, draws)
        view = recolour(view, matrix, offset)
    if recipe.gamma:
        view = view.clamp(1e-6, 1) ** draws.draw_uniform(-recipe.gamma, recipe.gamma).exp()[:, None, None, None]
    if recipe.blur:
        largest = max(0.3, 2.0 * size / 224)
        view = blur(view, draws.draw_uniform(0.1, largest) * draws.draw_event(recipe.blur), largest)
    if recipe.noise:
        view = view + recipe.noise * draws.draw_normal(view.shape[1:])
    return view


# ---- augmentations


def make_affine_maps(
    *,
    angle: Tensor | float = 0.0,
    shear: Tensor | float = 0.0,
    zoom: tuple[Tensor | float, Tensor | float] = (1.0, 1.0),
    shift: tuple[Tensor | float, Tensor | float] = (0.0, 0.0),
    like: Tensor,
) -> Tensor:
    """Return affine maps from output to input coordinates, (B, 2, 3), in units of half the side.

    Args:
        angle: degrees, anticlockwise.
        shear: shift of x per unit of y.
        zoom: enlargement along x and y.
        shift: shift along x and y, as a fraction of the side.
        like: a tensor of length B, for the number of maps and their device.
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


def make_crop_maps(left: Tensor, top: Tensor, width: Tensor, height: Tensor, flipped: Tensor) -> Tensor:
    """Return affine maps that enlarge a box to the whole image, (B, 2, 3).

    Args:
        left: left edge of the box, as a fraction of the side, (B,).
        top: top edge of the box, as a fraction of the side, (B,).
        width: width of the box, as a fraction of the side, (B,).
        height: height of the box, as a fraction of the side, (B,).
        flipped: 1 to mirror the image horizontally, else 0, (B,).
    """
    zero = torch.zeros_like(width)
    mirror = 1 - 2 * flipped
    row_x = torch.stack([width * mirror, zero, 2 * left + width - 1], dim=1)
    row_y = torch.stack([zero, height, 2 * top + height - 1], dim=1)
    return torch.stack([row_x, row_y], dim=1)


def warp(images: Tensor, maps: Tensor | None, size: int | None = None) -> Tensor:
    """Resample every image with its affine map, (B, 2, 3); pixels outside repeat the edge.

    Args:
        images: (B, 3, H, W).
        maps: maps from output to input coordinates, in units of half the side; `None` to return the images.
        size: side of the output in pixels; by default that of the input.
    """
    if maps is None:
        return images
    shape = list(images.shape) if size is None else [*images.shape[:2], size, size]
    grid = functional.affine_grid(maps, shape, align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def recolour(images: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """Multiply every pixel by the matrix of its image, add the offset of its image, and clamp the result to 0 to 1.

    Args:
        images: (B, 3, H, W).
        matrix: one matrix for each image, (B, 3, 3).
        offset: one offset for each image, (B, 3).
    """
    coloured = torch.baddbmm(offset[:, :, None], matrix, images.flatten(2))
    return coloured.view(images.shape).clamp_(0, 1)


def make_colour_matrix(
    means: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor, grey: Tensor
) -> tuple[Tensor, Tensor]:
    """Combine brightness, contrast, saturation, hue and conversion to grey, in this order, into a matrix and an offset.

    Args:
        means: mean colour of each image, (B, 3); contrast is relative to the mean grey.
        brightness: factors, (B,).
        contrast: factors, (B,).
        saturation: factors, (B,).
        hue: fractions of the colour circle, (B,).
        grey: 1 to convert to grey, else 0, (B,).

    Returns:
        Matrices, (B, 3, 3), and offsets, (B, 3), for `recolour`.
    """
    weights, _, _ = _make_constants(means.device)
    identity = torch.eye(3, device=means.device)
    to_grey = weights.expand(3, 3)

    def blend(fraction: Tensor) -> Tensor:
        return fraction[:, None, None] * identity + (1 - fraction)[:, None, None] * to_grey

    bright = (brightness * contrast)[:, None, None] * identity
    offset = ((1 - contrast) * brightness * (means @ weights))[:, None].expand(-1, 3)
    matrix = blend(1 - grey) @ _make_hue_rotation(hue) @ blend(saturation)
    return matrix @ bright, (matrix @ offset[:, :, None])[:, :, 0]


def blur(images: Tensor, sigma: Tensor, largest: float) -> Tensor:
    """Apply a Gaussian blur.

    Args:
        images: (B, 3, H, W).
        sigma: standard deviation for each image in pixels, (B,); 0 leaves the image unchanged.
        largest: upper bound of `sigma`, which determines the size of the kernel.
    """
    radius = max(1, math.ceil(3 * largest))
    offsets = torch.arange(-radius, radius + 1, device=images.device, dtype=torch.float32)
    kernel = torch.exp(-0.5 * (offsets / sigma.clamp_min(1e-3)[:, None]) ** 2)
    kernel = (kernel / kernel.sum(dim=1, keepdim=True)).repeat_interleave(3, dim=0)[:, None]  # (3B, 1, K)
    batch, channels, height, width = images.shape
    flat = images.reshape(1, batch * channels, height, width)
    padded = functional.pad(flat, (radius, radius, 0, 0), mode="reflect" if radius < width else "replicate")
    flat = functional.conv2d(padded, kernel[:, :, None, :], groups=batch * channels)
    padded = functional.pad(flat, (0, 0, radius, radius), mode="reflect" if radius < height else "replicate")
    return functional.conv2d(padded, kernel[:, :, :, None], groups=batch * channels).view(images.shape)


def _make_hue_rotation(hue: Tensor) -> Tensor:
    _, to_yiq, from_yiq = _make_constants(hue.device)
    turn = -2 * math.pi * hue  # the direction of HSV
    zero, one = torch.zeros_like(turn), torch.ones_like(turn)
    cosine, sine = turn.cos(), turn.sin()
    rotation = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], dim=1).view(-1, 3, 3)
    return from_yiq @ rotation @ to_yiq


@lru_cache
def _make_constants(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return grey weights, YIQ matrix and its inverse. Made for every batch, they would make the CPU wait for a GPU."""
    to_yiq = torch.tensor(_TO_YIQ)
    return torch.tensor(GREY_WEIGHTS).to(device), to_yiq.to(device), torch.linalg.inv(to_yiq).to(device)


# ---- random draws


class _RandomDraws:
    """Random draws for every image of a batch, made on the CPU so that they are the same on every device."""

    def __init__(
        self, count: int, generator: torch.Generator, device: torch.device, batch_slice: BatchSlice | None
    ) -> None:
        start, self._total = batch_slice or BatchSlice(0, count)
        self._here = slice(start, start + count)
        self._generator, self._device = generator, device

    def draw_uniform(self, lowest: float, highest: float, columns: int | None = None) -> Tensor:
        return lowest + (highest - lowest) * self._draw(columns)

    def draw_event(self, probability: float) -> Tensor:
        return (self._draw() < probability).float()

    def draw_normal(self, shape: torch.Size) -> Tensor:
        return self._move(torch.randn(self._total, *shape, generator=self._generator))

    def _draw(self, columns: int | None = None) -> Tensor:
        shape = (self._total,) if columns is None else (self._total, columns)
        return self._move(torch.rand(shape, generator=self._generator))

    def _move(self, draws: Tensor) -> Tensor:
        # A blocking copy to a GPU would wait for all work before it, ten times per view. CUDA has copied pageable
        # memory when the call returns; Apple's GPUs have not.
        return draws[self._here].to(self._device, non_blocking=self._device.type == "cuda")


def _draw_warp(recipe: AugmentationRecipe, draws: _RandomDraws, aspects: Tensor | None) -> Tensor | None:
    crops = recipe.crop != (1.0, 1.0) or recipe.flip > 0
    turns = recipe.rotation or recipe.shear or recipe.zoom or recipe.shift
    maps = _draw_crop(recipe, draws, aspects) if crops else None
    if maps is None and aspects is not None:
        maps = _make_centre_maps(aspects)
    if not turns:
        return maps
    angle = draws.draw_uniform(-recipe.rotation, recipe.rotation)
    turned = make_affine_maps(
        angle=angle,
        shear=draws.draw_uniform(-recipe.shear, recipe.shear),
        zoom=(draws.draw_uniform(-recipe.zoom, recipe.zoom).exp(), draws.draw_uniform(-recipe.zoom, recipe.zoom).exp()),
        shift=(draws.draw_uniform(-recipe.shift, recipe.shift), draws.draw_uniform(-recipe.shift, recipe.shift)),
        like=angle,
    )
    return turned if maps is None else _compose(maps, turned)


def _compose(first: Tensor, second: Tensor) -> Tensor:
    """Return the affine maps of two warps in sequence: `first` warps the image, `second` warps the result."""
    linear = first[:, :, :2] @ second[:, :, :2]
    moved = first[:, :, :2] @ second[:, :, 2:] + first[:, :, 2:]
    return torch.cat([linear, moved], dim=2)


def _draw_crop(recipe: AugmentationRecipe, draws: _RandomDraws, aspects: Tensor | None) -> Tensor:
    """Return random crops, in fractions of the image, which is square or an original stretched to a square.

    As in torchvision, area and aspect ratio in the original are drawn until the crop fits, at most ten times; after
    that, it is the largest centred crop of an allowed aspect ratio.
    """
    largest = math.log(recipe.crop_ratio)
    area = draws.draw_uniform(*recipe.crop, columns=_CROP_TRIES)
    ratio = draws.draw_uniform(-largest, largest, columns=_CROP_TRIES).exp()
    stretch = torch.ones_like(area[:, 0]) if aspects is None else aspects
    widths, heights = (area * ratio / stretch[:, None]).sqrt(), (area * stretch[:, None] / ratio).sqrt()
    fits = (widths <= 1) & (heights <= 1)
    first, is_found = fits.float().argmax(dim=1, keepdim=True), fits.any(dim=1)
    allowed = stretch.clamp(1 / recipe.crop_ratio, recipe.crop_ratio)
    width = torch.where(is_found, widths.gather(1, first)[:, 0], (allowed / stretch).clamp_max(1))
    height = torch.where(is_found, heights.gather(1, first)[:, 0], (stretch / allowed).clamp_max(1))
    left, top = (torch.where(is_found, draws.draw_uniform(0, 1), 0.5) * (1 - side) for side in (width, height))
    return make_crop_maps(left, top, width, height, draws.draw_event(recipe.flip))


def _make_centre_maps(aspects: Tensor) -> Tensor:
    """Return the crops of the centre squares of whole images."""
    width, height = (1 / aspects).clamp_max(1), aspects.clamp_max(1)
    return make_crop_maps((1 - width) / 2, (1 - height) / 2, width, height, torch.zeros_like(aspects))


def _draw_colour(images: Tensor, recipe: AugmentationRecipe, draws: _RandomDraws) -> tuple[Tensor, Tensor]:
    is_jittered = draws.draw_event(recipe.jitter)

    def factor(spread: float) -> Tensor:
        return 1 + is_jittered * draws.draw_uniform(-spread, spread)

    return make_colour_matrix(
        images.mean(dim=(2, 3)),
        factor(recipe.brightness),
        factor(recipe.contrast),
        factor(recipe.saturation),
        is_jittered * draws.draw_uniform(-recipe.hue, recipe.hue),
        draws.draw_event(recipe.grey),
    )
