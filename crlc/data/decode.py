"""From an encoded image to square 8-bit RGB pixels. Content decides what a file is, not its name."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from PIL import Image, UnidentifiedImageError

from crlc.data.sources import RawImage, UnreadableError

_DRAFT_FACTOR = 2
"""A JPEG is decoded at a fraction of its size, but never at less than twice what is asked for."""

_COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM")
# EPS and WMF run other programs, the rest only announce a format they cannot decode.
_REFUSED_FORMATS = frozenset({"EPS", "WMF", "BUFR", "GRIB", "HDF5", "MPEG"})
_EXIF_ORIENTATION = 0x0112
_TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDES_SWAPPED = frozenset({5, 6, 7, 8})
_SIXTEEN_BIT_MAX = 65535

_KNOWN_FOREIGN = (
    (b"%PDF", "a PDF document, not an image"),
    (b"PK\x03\x04", "a zip archive, not an image: import it by itself"),
    (b"\x1f\x8b", "a gzip archive, not an image"),
    (b"%!PS", "a PostScript file: convert it to PNG"),
    (b"\xc5\xd0\xd3\xc6", "a PostScript file: convert it to PNG"),
    (b"<svg", "a vector drawing (SVG): convert it to PNG"),
    (b"<?xml", "an XML file, not an image"),
    (b"<!DOCTYPE", "a web page, not an image"),
    (b"<html", "a web page, not an image"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the real file with `git lfs pull`"),
)


def decode(raw: RawImage, size: int) -> tuple[tuple[int, int], Image.Image]:
    """Decode one image and cut its centre square.

    Args:
        raw: an encoded file, or an (H, W) or (H, W, channels) array.
        size: side of the square, in pixels.

    Returns:
        The upright image's width and height, and the square in RGB.

    Raises:
        UnreadableError: with the reason that people see.
    """
    with _reasons(raw), open_image(raw) as image:
        width, height = image.size
        orientation = _load(image, size)
        square = _centre_square(_eight_bits(image), size, orientation)
    return ((height, width) if orientation in _SIDES_SWAPPED else (width, height)), square


def decode_fitted(raw: RawImage, side: int) -> Image.Image:
    """Decode one image whole, upright, its aspect kept, no side longer than `side`."""
    with _reasons(raw), open_image(raw) as image:
        orientation = _load(image, side)
        fitted = _eight_bits(image)
        fitted.thumbnail((side, side), Image.Resampling.BICUBIC, reducing_gap=float(_DRAFT_FACTOR))
        return _turned(_flat(fitted), orientation)


def image_size(raw: RawImage) -> tuple[int, int]:
    """Width and height from the header alone, as stored (not yet turned upright)."""
    with _reasons(raw), open_image(raw) as image:
        return image.size


def open_image(raw: RawImage) -> Image.Image:
    """Open without decoding; the formats are those Pillow reads by itself."""
    if not isinstance(raw, bytes):
        return Image.fromarray(raw[..., 0] if raw.shape[2:] == (1,) else raw)
    if not raw:
        raise UnreadableError("the file is empty")
    try:
        return Image.open(io.BytesIO(raw), formats=_COMMON_FORMATS)
    except UnidentifiedImageError:
        return Image.open(io.BytesIO(raw), formats=_other_formats())


@contextmanager
def _reasons(raw: RawImage) -> Iterator[None]:
    """Turn whatever a decoder may raise into a reason that people understand."""
    try:
        yield
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(_reason(error, raw)) from None


def _reason(error: Exception, raw: RawImage) -> str:
    text = str(error)
    if isinstance(error, UnidentifiedImageError):
        return _foreign(bytes(raw[:512])) if isinstance(raw, bytes) else "not an image"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels: it would unpack to more than half a gigabyte"
    if isinstance(error, MemoryError):
        return "too large for this computer's memory"
    if isinstance(error, (EOFError, struct.error)) or "truncated" in text.lower() or "not enough" in text:
        return "truncated: the file ends before the image does"
    return f"damaged: {text or type(error).__name__}"


def _foreign(start: bytes) -> str:
    """What a file that no decoder takes looks like instead."""
    for magic, reason in _KNOWN_FOREIGN:
        if start.lstrip().startswith(magic):
            return reason
    if start[4:8] == b"ftyp":
        if start[8:12] in (b"heic", b"heix", b"mif1", b"msf1", b"hevc"):
            return "a HEIC photograph, which Pillow does not read: convert it to JPEG"
        return "a video, not an image"
    if not start.strip(b"\0"):
        return "not an image: it holds only zeros"
    if start.isascii() and b"\0" not in start:
        return "a text file, not an image"
    return "not an image that Pillow can read"


@cache
def _other_formats() -> tuple[str, ...]:
    """Every other format that Pillow knows; loading them all takes longer than many images do."""
    Image.init()
    return tuple(name for name in Image.ID if name not in _REFUSED_FORMATS)


def _load(image: Image.Image, side: int) -> int:
    """Decode the pixels, a JPEG at no more than is needed for `side`; returns the EXIF orientation."""
    image.draft(None, (_DRAFT_FACTOR * side,) * 2)
    image.load()  # before the EXIF: reading a PNG's decodes it too, and would hide that it is damaged
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # a broken EXIF block says nothing about the pixels
        return 1


def _eight_bits(image: Image.Image) -> Image.Image:
    """The image as L, RGB, or RGBA (premultiplied during resizing, flattened after)."""
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _scaled_to_eight_bits(image)
    if image.mode == "1":
        return image.convert("L")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        return image.convert("RGBA")
    return image.convert("RGB")


def _scaled_to_eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey by its full range, fractions of 1 by theirs, anything else by its own extremes."""
    import numpy as np

    values = np.asarray(image)
    numbers = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    lowest, highest = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "f" and lowest >= 0 and highest <= 1:
        lowest, highest = 0.0, 1.0
    elif lowest >= 0 and highest <= _SIXTEEN_BIT_MAX and values.dtype.kind != "f":
        lowest, highest = 0.0, float(_SIXTEEN_BIT_MAX)
    scaled = (numbers - lowest) * (255 / max(highest - lowest, np.finfo(np.float64).tiny))
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))


def _centre_square(image: Image.Image, size: int, orientation: int) -> Image.Image:
    """Short side to `size`, centre crop, in one resampling; turned upright last, when it is small.

    The box is not rounded to pixels, so turning before or after gives the same square.
    """
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    box = (left, top, left + short, top + short)
    square = image
    if image.size != (size, size):
        square = image.resize((size, size), Image.Resampling.BICUBIC, box, reducing_gap=float(_DRAFT_FACTOR))
    return _turned(_flat(square), orientation)


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(_TRANSPOSED[orientation]) if orientation in _TRANSPOSED else image


def _flat(image: Image.Image) -> Image.Image:
    """RGB on white: the ground on which transparent pictures are drawn."""
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")
