"""Decoding, against values worked out by hand and against Pillow's own operations."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from crlc.data.decode import decode, decode_fitted, image_size
from crlc.data.sources import UnreadableError
from tests.hostile import encoded, sixteen_bit_rgb
from tests.pictures import picture


def pixels(raw, size: int = 16) -> np.ndarray:
    return np.asarray(decode(raw, size)[1])


def flat(colour, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (20, 20), colour)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_as_pillow_would(orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = encoded(picture(1, 33, 20), "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    size, square = decode(raw, 20)
    assert size == upright.size
    np.testing.assert_allclose(np.asarray(square), pixels(encoded(upright, "PNG"), 20), atol=1)
    assert decode_fitted(raw, 100).size == upright.size


@pytest.mark.parametrize(
    ("image", "colour"),
    [
        (flat((10, 20, 30)), (10, 20, 30)),
        (flat(77, "L"), (77, 77, 77)),
        (flat(1, "1"), (255, 255, 255)),
        (flat((200, 0), "LA"), (255, 255, 255)),  # transparent shows the white ground
        (flat((200, 255), "LA"), (200, 200, 200)),
        (flat((255, 0, 0, 51), "RGBA"), (255, 204, 204)),  # a fifth of red on white
        (flat((10, 20, 30)).quantize(2), (10, 20, 30)),
    ],
)
def test_modes_become_rgb(image: Image.Image, colour: tuple[int, int, int]):
    assert (pixels(encoded(image, "PNG")) == colour).all()


def test_cmyk_becomes_rgb():
    raw = encoded(flat((0, 255, 255, 0), "CMYK"), "TIFF")  # full magenta and yellow is red
    assert (pixels(raw) == (255, 0, 0)).all()


def test_a_transparent_palette_colour_becomes_white():
    image = flat((10, 20, 30)).quantize(2)
    raw = encoded(image, "PNG", transparency=image.getpixel((0, 0)))
    assert (pixels(raw) == 255).all()


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (257, 1), (32768, 128), (65535, 255)])
def test_sixteen_bit_grey_is_scaled_and_not_cut(value: int, expected: int):
    raw = encoded(Image.fromarray(np.full((9, 9), value, np.uint16)), "PNG")
    assert (pixels(raw) == expected).all()


def test_sixteen_bit_colour_is_scaled():
    assert (pixels(sixteen_bit_rgb(), 8) == (255, 128, 0)).all()


def test_fractions_and_wide_floats_are_scaled():
    fractions = np.tile(np.array([0.0, 1.0], np.float32), (2, 1)).repeat(8, axis=1).repeat(8, axis=0)
    square = pixels(encoded(Image.fromarray(fractions), "TIFF"))
    assert square[0, 0, 0] == 0
    assert square[0, -1, 0] == 255
    wide = pixels(encoded(Image.fromarray(fractions * 9000 - 4500), "TIFF"))
    np.testing.assert_array_equal(wide, square)


def test_the_centre_square_is_cut():
    stripes = np.zeros((10, 30, 3), np.uint8)
    stripes[:, 10:20] = (0, 255, 0)
    (width, height), square = decode(encoded(Image.fromarray(stripes), "PNG"), 10)
    assert (width, height) == (30, 10)
    assert (np.asarray(square) == (0, 255, 0)).all()


def test_draft_mode_changes_big_jpegs_only_a_little():
    raw = encoded(picture(3, 1600, 1200), "JPEG", quality=95)
    full = Image.open(io.BytesIO(raw)).convert("RGB").resize((96, 96), Image.Resampling.BICUBIC, (200, 0, 1400, 1200))
    assert np.abs(pixels(raw, 96).astype(int) - np.asarray(full)).mean() < 1.5


def test_thumbnails_keep_the_aspect_and_are_not_enlarged():
    assert decode_fitted(encoded(picture(4, 400, 100), "JPEG"), 200).size == (200, 50)
    assert decode_fitted(encoded(picture(4, 8, 6), "PNG"), 200).size == (8, 6)


def test_the_first_frame_counts():
    frames = [flat("red"), flat("blue")]
    raw = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (pixels(raw) == (255, 0, 0)).all()


@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
def test_arrays_are_images_too(channels: tuple[int, ...]):
    array = np.full((5, 7, *channels), 255, np.uint8)
    assert image_size(array) == (7, 5)
    assert (pixels(array) == 255).all()


def test_an_image_damaged_in_the_middle_is_not_taken_for_good():
    raw = bytearray(encoded(picture(5, 200, 200), "PNG"))
    raw[len(raw) // 2 : len(raw) // 2 + 50] = b"\xff" * 50
    with pytest.raises(UnreadableError, match="damaged"):
        decode(bytes(raw), 16)
