"""Tests of views: each augmentation against torchvision, randomness and reproducibility."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as theirs

from crlc.data import augmentation
from crlc.data.augmentation import (
    GLYPH,
    PHOTO,
    PHOTO_BLURRED,
    RECIPES,
    blur,
    choose_recipe,
    make_affine_maps,
    make_colour_matrix,
    make_crop_maps,
    make_view,
    recolour,
    to_images,
    warp,
)

BILINEAR = InterpolationMode.BILINEAR


def make_images(count: int = 2, size: int = 24) -> Tensor:
    """Return smooth images with a black frame, so that the padding beyond the edge does not matter."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    inner = functional.interpolate(coarse, size=size // 2, mode="bicubic").clamp(0.1, 0.9)
    return functional.pad(inner, (size // 4,) * 4)


def ones(count: int = 2) -> Tensor:
    return torch.ones(count)


@pytest.mark.parametrize("angle", [-20.0, 7.0, 90.0])
def test_affine_map_rotates_as_torchvision(angle: float):
    images = make_images()
    ours = warp(images, make_affine_maps(angle=angle, like=ones()))
    torch.testing.assert_close(ours, theirs.rotate(images, angle, BILINEAR), atol=1e-4, rtol=0)


@pytest.mark.parametrize("shift", [(3, 0), (0, -2), (-1, 4)])
def test_affine_map_shifts_as_torchvision(shift: tuple[int, int]):
    images = make_images()
    ours = warp(images, make_affine_maps(shift=(shift[0] / 24, shift[1] / 24), like=ones()))
    expected = theirs.affine(images, 0, list(shift), 1.0, [0.0, 0.0], BILINEAR)
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("zoom", [0.8, 1.25])
def test_affine_map_zooms_as_torchvision(zoom: float):
    images = make_images()
    ours = warp(images, make_affine_maps(zoom=(zoom, zoom), like=ones()))
    torch.testing.assert_close(ours, theirs.affine(images, 0, [0, 0], zoom, [0.0, 0.0], BILINEAR), atol=1e-4, rtol=0)


@pytest.mark.parametrize("shear", [-0.3, 0.2])
def test_affine_map_shears_as_torchvision(shear: float):
    images = make_images()
    ours = warp(images, make_affine_maps(shear=shear, like=ones()))
    degrees = math.degrees(math.atan(shear))
    torch.testing.assert_close(ours, theirs.affine(images, 0, [0, 0], 1.0, [degrees, 0.0], BILINEAR), atol=1e-4, rtol=0)


@pytest.mark.parametrize("flipped", [0.0, 1.0])
def test_crop_map_crops_and_flips(flipped: float):
    images = torch.rand(2, 3, 24, 24, generator=torch.Generator().manual_seed(1))
    crop = [torch.full((2,), value / 24) for value in (4, 6, 12, 9)]  # left, top, width, height
    ours = warp(images, make_crop_maps(*crop, torch.full((2,), flipped)))
    expected = theirs.resized_crop(images, 6, 4, 9, 12, [24, 24], BILINEAR)
    expected = theirs.hflip(expected) if flipped else expected
    # Only the inside is compared: at its border our crop interpolates with the pixels outside, while torchvision
    # repeats the border pixel.
    torch.testing.assert_close(ours[..., 2:-2, 2:-2], expected[..., 2:-2, 2:-2], atol=1e-4, rtol=0)


def adjust_colours(images: Tensor, **changes: float) -> Tensor:
    values = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0, "grey": 0.0, **changes}
    tensors = [
        torch.full((len(images),), values[name]) for name in ("brightness", "contrast", "saturation", "hue", "grey")
    ]
    return recolour(images, *make_colour_matrix(images.mean(dim=(2, 3)), *tensors))


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.3])
@pytest.mark.parametrize("change", ["brightness", "contrast", "saturation"])
def test_colour_matrix_matches_torchvision(change: str, factor: float):
    images = 0.3 + 0.4 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    expected = getattr(theirs, f"adjust_{change}")(images, factor)
    torch.testing.assert_close(adjust_colours(images, **{change: factor}), expected, atol=2e-3, rtol=0)


def test_colour_matrix_converts_to_grey():
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    expected = theirs.rgb_to_grayscale(images, num_output_channels=3)
    torch.testing.assert_close(adjust_colours(images, grey=1.0), expected, atol=1e-4, rtol=0)


def test_colour_matrix_combines_all_changes():
    images = 0.4 + 0.2 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(4))
    expected = theirs.adjust_saturation(theirs.adjust_contrast(theirs.adjust_brightness(images, 1.1), 0.8), 1.3)
    ours = adjust_colours(images, brightness=1.1, contrast=0.8, saturation=1.3)
    torch.testing.assert_close(ours, expected, atol=2e-3, rtol=0)


def test_colour_matrix_rotates_hue_and_keeps_grey():
    grey = torch.full((2, 3, 4, 4), 0.5)
    torch.testing.assert_close(adjust_colours(grey, hue=0.3), grey, atol=2e-3, rtol=0)
    images = 0.4 + 0.2 * torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(adjust_colours(images, hue=1.0), images, atol=2e-3, rtol=0)  # a full rotation
    # We rotate in RGB, torchvision in HSV: the colours differ, but direction and distance are about equal.
    ours, others = adjust_colours(images, hue=0.05) - images, theirs.adjust_hue(images, 0.05) - images
    assert torch.cosine_similarity(ours.flatten(), others.flatten(), dim=0) > 0.6
    assert (ours.norm() / others.norm()).item() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_blur_matches_torchvision(sigma: float):
    images = make_images()
    ours = blur(images, torch.tensor([sigma, 0.0]), largest=1.0)
    torch.testing.assert_close(ours[0], theirs.gaussian_blur(images[0], 7, sigma), atol=1e-4, rtol=0)
    torch.testing.assert_close(ours[1], images[1])


@pytest.mark.parametrize("recipe", [PHOTO, PHOTO_BLURRED, GLYPH], ids=["photo", "blurred", "glyph"])
def test_view_is_reproducible_and_differs_between_images(recipe):
    images = make_images(1, 32).expand(8, -1, -1, -1)
    first = make_view(images, recipe, torch.Generator().manual_seed(7))
    again = make_view(images, recipe, torch.Generator().manual_seed(7))
    other = make_view(images, recipe, torch.Generator().manual_seed(8))
    assert first.shape == images.shape
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=0.05)
    assert all(not torch.allclose(first[0], first[index], atol=0.05) for index in range(1, 8))
    assert torch.isfinite(first).all()


def test_view_of_the_empty_recipe_is_the_image():
    images = make_images()
    assert torch.equal(make_view(images, RECIPES["none"], torch.Generator()), images)


def test_view_crops_the_requested_fraction_of_the_area():
    images = torch.zeros(4000, 3, 8, 8)
    images[:, 0] = torch.linspace(0, 1, 8)
    view = make_view(
        images, RECIPES["photo"].__class__(crop=(0.25, 0.25), crop_ratio=1.0), torch.Generator().manual_seed(0)
    )
    spread = view[:, 0].amax(dim=(1, 2)) - view[:, 0].amin(dim=(1, 2))
    assert spread.mean().item() == pytest.approx(0.5, abs=0.04)  # half the side


@pytest.mark.parametrize("aspect", [0.3, 3 / 4, 1.0, 4 / 3, 2.0, 8.0])
def test_random_crops_have_the_areas_and_places_of_torchvision(aspect: float):
    count, height = 20_000, 3000  # torchvision rounds to whole pixels
    width = round(aspect * height)
    image = torch.zeros(3, 1, 1).expand(3, height, width)
    torch.manual_seed(0)
    drawn = [RandomResizedCrop.get_params(image, [0.2, 1.0], [3 / 4, 4 / 3]) for _ in range(2000)]
    top, left, tall, wide = torch.tensor(drawn, dtype=torch.float64).T
    expected = torch.stack([left / width, top / height, wide / width, tall / height, wide * tall / (width * height)])

    draws = augmentation._RandomDraws(count, torch.Generator().manual_seed(0), torch.device("cpu"), None)
    aspects = None if aspect == 1.0 else torch.full((count,), aspect)
    maps = augmentation._draw_crop(RECIPES["photo"], draws, aspects).double()
    wide, tall = maps[:, 0, 0].abs(), maps[:, 1, 1]
    left, top = (maps[:, 0, 2] + 1 - wide) / 2, (maps[:, 1, 2] + 1 - tall) / 2
    ours = torch.stack([left, top, wide, tall, wide * tall])
    assert float(ours.min()) > -1e-6
    assert float((left + wide).max()) < 1 + 1e-6
    # Means and standard deviations of 2,000 draws; five standard errors.
    torch.testing.assert_close(ours.mean(1), expected.mean(1), atol=5 * 0.25 / 2000**0.5, rtol=0)
    torch.testing.assert_close(ours.std(1), expected.std(1), atol=0.02, rtol=0)


@pytest.mark.parametrize(("probability", "recipe"), [(0.2, "photo"), (0.0, "glyph")])
def test_view_is_grey_with_the_requested_probability(probability: float, recipe: str):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3000, 3, 2, 2, generator=generator)
    view = make_view(images, RECIPES[recipe], generator)
    grey = ((view.amax(1) - view.amin(1)).amax(dim=(1, 2)) < 1e-3).float().mean().item()
    assert grey == pytest.approx(probability, abs=0.03)


def test_choose_recipe_by_size_and_colour():
    grey = torch.randint(0, 256, (4, 16, 16, 1), dtype=torch.uint8).expand(-1, -1, -1, 3)
    assert choose_recipe(grey) == "glyph"
    assert choose_recipe(torch.randint(0, 256, (4, 16, 16, 3), dtype=torch.uint8)) == "photo"
    assert choose_recipe(torch.zeros(4, 96, 96, 3, dtype=torch.uint8)) == "photo"


def test_to_images_returns_channels_last_floats():
    stored = torch.tensor([0, 51, 255], dtype=torch.uint8).expand(2, 4, 4, 3).contiguous()
    images = to_images(stored)
    assert images[0, :, 0, 0].tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert images.is_contiguous(memory_format=torch.channels_last)
