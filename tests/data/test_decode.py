"""Tests of decoding, against known values and against Pillow's own operations."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

from crlc.data.decode import _register_heif, decode_photo, decode_square, decode_whole, read_image_size
from crlc.data.sources import UnreadableError
from tests.fixtures.broken_files import encode, make_sixteen_bit_rgb
from tests.fixtures.images import make_image
from tests.fixtures.photographs import MODEL, TAKEN, make_exif


def decode_pixels(raw, size: int = 16) -> np.ndarray:
    return np.asarray(decode_square(raw, size)[1])


def make_flat_image(colour, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (20, 20), colour)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_decode_applies_the_exif_orientation(orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = encode(make_image(1, 33, 20), "PNG", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    size, square = decode_square(raw, 20)
    assert size == upright.size
    np.testing.assert_allclose(np.asarray(square), decode_pixels(encode(upright, "PNG"), 20), atol=1)
    assert decode_whole(raw, 100).size == upright.size


@pytest.mark.parametrize(
    ("image", "colour"),
    [
        (make_flat_image((10, 20, 30)), (10, 20, 30)),
        (make_flat_image(77, "L"), (77, 77, 77)),
        (make_flat_image(1, "1"), (255, 255, 255)),
        (make_flat_image((200, 0), "LA"), (255, 255, 255)),  # transparent: the white background shows
        (make_flat_image((200, 255), "LA"), (200, 200, 200)),
        (make_flat_image((255, 0, 0, 51), "RGBA"), (255, 204, 204)),  # 20 % red on white
        (make_flat_image((10, 20, 30)).quantize(2), (10, 20, 30)),
    ],
)
def test_decode_converts_modes_to_rgb(image: Image.Image, colour: tuple[int, int, int]):
    assert (decode_pixels(encode(image, "PNG")) == colour).all()


def test_decode_converts_cmyk_to_rgb():
    raw = encode(make_flat_image((0, 255, 255, 0), "CMYK"), "TIFF")  # full magenta and yellow is red
    assert (decode_pixels(raw) == (255, 0, 0)).all()


def test_decode_shows_a_transparent_palette_colour_as_white():
    image = make_flat_image((10, 20, 30)).quantize(2)
    raw = encode(image, "PNG", transparency=image.getpixel((0, 0)))
    assert (decode_pixels(raw) == 255).all()


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (257, 1), (32768, 128), (65535, 255)])
def test_decode_scales_sixteen_bit_grey(value: int, expected: int):
    raw = encode(Image.fromarray(np.full((9, 9), value, np.uint16)), "PNG")
    assert (decode_pixels(raw) == expected).all()


def test_decode_scales_sixteen_bit_colour():
    assert (decode_pixels(make_sixteen_bit_rgb(), 8) == (255, 128, 0)).all()


def test_decode_scales_floats():
    fractions = np.tile(np.array([0.0, 1.0], np.float32), (2, 1)).repeat(8, axis=1).repeat(8, axis=0)
    square = decode_pixels(encode(Image.fromarray(fractions), "TIFF"))
    assert square[0, 0, 0] == 0
    assert square[0, -1, 0] == 255
    wide = decode_pixels(encode(Image.fromarray(fractions * 9000 - 4500), "TIFF"))
    np.testing.assert_array_equal(wide, square)


def test_decode_crops_the_centre_square():
    stripes = np.zeros((10, 30, 3), np.uint8)
    stripes[:, 10:20] = (0, 255, 0)
    (width, height), square = decode_square(encode(Image.fromarray(stripes), "PNG"), 10)
    assert (width, height) == (30, 10)
    assert (np.asarray(square) == (0, 255, 0)).all()


def test_decode_of_a_large_jpeg_in_draft_mode_is_close_to_full_decoding():
    raw = encode(make_image(3, 1600, 1200), "JPEG", quality=95)
    full = Image.open(io.BytesIO(raw)).convert("RGB").resize((96, 96), Image.Resampling.BICUBIC, (200, 0, 1400, 1200))
    assert np.abs(decode_pixels(raw, 96).astype(int) - np.asarray(full)).mean() < 1.5


def test_decode_whole_keeps_the_aspect_and_does_not_enlarge():
    assert decode_whole(encode(make_image(4, 400, 100), "JPEG"), 200).size == (200, 50)
    assert decode_whole(encode(make_image(4, 8, 6), "PNG"), 200).size == (8, 6)


def test_decode_uses_the_first_frame():
    frames = [make_flat_image("red"), make_flat_image("blue")]
    raw = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (decode_pixels(raw) == (255, 0, 0)).all()


@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
def test_decode_accepts_arrays(channels: tuple[int, ...]):
    array = np.full((5, 7, *channels), 255, np.uint8)
    assert read_image_size(array) == (7, 5)
    assert (decode_pixels(array) == 255).all()


def test_decode_refuses_an_image_damaged_in_the_middle():
    raw = bytearray(encode(make_image(5, 200, 200), "PNG"))
    raw[len(raw) // 2 : len(raw) // 2 + 50] = b"\xff" * 50
    with pytest.raises(UnreadableError, match="damaged"):
        decode_square(bytes(raw), 16)


# ---- formats of telephones and cameras


def make_heic(exif: Image.Exif) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif")
    stream = io.BytesIO()
    file = pillow_heif.from_pillow(make_flat_image((200, 30, 40)).resize((64, 48)))
    file.save(stream, quality=90, exif=exif.tobytes())
    return stream.getvalue()


def test_decode_reads_heic_photographs_with_their_metadata():
    raw = make_heic(make_exif({MODEL: "iPhone 12", TAKEN: "2024:05:01 12:00:07"}))
    size, square, metadata = decode_photo(raw, 16)
    assert size == (64, 48)
    np.testing.assert_allclose(np.asarray(square).mean(axis=(0, 1)), (200, 30, 40), atol=6)
    assert (metadata.camera, metadata.taken) == ("iPhone 12", 1714564807)


def test_decode_names_the_command_that_installs_the_heic_decoder(monkeypatch: pytest.MonkeyPatch):
    raw = make_heic(make_exif({MODEL: "A"}))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)
    _register_heif.cache_clear()
    try:
        with pytest.raises(UnreadableError, match="pip install pillow-heif"):
            decode_square(raw, 16)
    finally:
        monkeypatch.undo()
        _register_heif.cache_clear()


def test_decode_reads_avif_without_a_plugin():
    raw = encode(make_flat_image((10, 200, 30)), "AVIF")
    np.testing.assert_allclose(decode_pixels(raw).mean(axis=(0, 1)), (10, 200, 30), atol=6)


@pytest.mark.parametrize(
    "start", [b"FUJIFILMCCD-RAW 0201", b"IIU\0\x18\0\0\0", b"IIRO\x08\0\0\0", b"\0\0\0\x18ftypcrx \0\0\0\x01"]
)
def test_decode_says_that_raw_photographs_are_not_read(start: bytes):
    with pytest.raises(UnreadableError, match="RAW photograph"):
        decode_square(start + bytes(200), 16)
