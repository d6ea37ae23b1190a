"""Tests of brightness, contrast and sharpness against hand-computed and naive values."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFilter

from crlc.data.columns import BLURRED, DARK, GOOD, UNIFORM, flag_quality
from crlc.data.pixel_statistics import measure_pixels


def to_image(grey: np.ndarray) -> Image.Image:
    return Image.fromarray(np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2))


def make_texture(seed: int = 0, size: int = 96) -> Image.Image:
    """Return an image with detail at every scale, like a photograph."""
    random = np.random.default_rng(seed)
    layers = [
        np.asarray(Image.fromarray(random.normal(0, 1, (n, n)).astype(np.float32)).resize((size, size), Image.BICUBIC))
        for n in (4, 8, 16, 32, 96)
    ]
    total = sum(layers)
    return to_image(np.clip(128 + 40 * total / total.std(), 0, 255))


def test_half_black_half_white_has_contrast_50():
    grey = np.zeros((60, 60))
    grey[:, 30:] = 255
    found = measure_pixels(to_image(grey))
    assert (found.brightness, found.contrast) == (50.0, 50.0)


def test_sharpness_is_the_deviation_of_the_laplacian_over_the_contrast_of_the_middle():
    grey = np.random.default_rng(1).integers(100, 130, (48, 48)).astype(np.float64)
    middle = grey[8:40, 8:40]
    edges = middle[:-2, 1:-1] + middle[2:, 1:-1] + middle[1:-1, :-2] + middle[1:-1, 2:] - 4 * middle[1:-1, 1:-1]
    found = measure_pixels(to_image(grey))
    assert found.brightness == pytest.approx(grey.mean() / 2.55, abs=0.01)
    assert found.contrast == pytest.approx(grey.std() / 2.55, abs=0.01)
    assert found.sharpness == pytest.approx(edges.std() / middle.std(), rel=0.02)  # the filter rounds


@pytest.mark.parametrize("side", [1, 2, 3, 5])
def test_tiny_images_have_finite_statistics(side: int):
    assert np.isfinite(measure_pixels(to_image(np.arange(side * side).reshape(side, side)))).all()


def test_flags_name_blurred_dark_and_uniform_images():
    sharp = make_texture()
    images = [
        sharp,
        sharp.filter(ImageFilter.GaussianBlur(3)),
        sharp.point(lambda level: level / 6),
        to_image(np.full((96, 96), 250) + np.random.default_rng(0).integers(-3, 4, (96, 96))),
        to_image(np.zeros((96, 96))),
    ]
    statistics = np.array([measure_pixels(image) for image in images])
    names = (BLURRED, DARK, GOOD, UNIFORM)
    assert [names[flag] for flag in flag_quality(*statistics.T)] == [GOOD, BLURRED, DARK, UNIFORM, UNIFORM]


def test_low_contrast_alone_is_not_blurred():
    hazy = make_texture().point(lambda level: 100 + level / 4)
    found = measure_pixels(hazy)
    assert flag_quality(*(np.array([value]) for value in found)).tolist() == [2]  # good
    assert found.sharpness == pytest.approx(measure_pixels(make_texture()).sharpness, rel=0.1)


def test_unknown_statistics_have_no_flag():
    unknown = np.array([np.nan])
    assert flag_quality(unknown, unknown, unknown).tolist() == [-1]
