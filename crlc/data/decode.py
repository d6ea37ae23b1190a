"""Decoding of images to 8-bit RGB. The format is detected from the content of a file, not from its name."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

from crlc.data.camera_raw import is_camera_raw, open_raw_preview
from crlc.data.photo_metadata import PhotoMetadata, read_photo_metadata
from crlc.data.sources import RawImage, UnreadableError

_DRAFT_FACTOR = 2
"""A JPEG is decoded at reduced size, but at no less than this multiple of the requested side."""

_COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM")
# EPS and WMF run other programs; for the others Pillow detects the format but cannot decode it.
_REFUSED_FORMATS = frozenset({"EPS", "WMF", "BUFR", "GRIB", "HDF5", "MPEG"})
_EXIF_ORIENTATION = 0x0112
_TRANSPOSITIONS = {
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
_HEIF = "HEIF"
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_MAX_BRAND_BYTES = 64
_HEIF_ADVICE = "a HEIC photograph: to read it, run `pip install pillow-heif` and import again"
_DAMAGED_HEIF = "a HEIC photograph that is damaged"
_RAW_ADVICE = "a RAW photograph of a camera, which is not read: export it as JPEG"

_FOREIGN_SIGNATURES = (
    (b"%PDF", "a PDF document, not an image"),
    (b"PK\x03\x04", "a zip archive, not an image: import it separately"),
    (b"\x1f\x8b", "a gzip archive, not an image"),
    (b"%!PS", "a PostScript file: convert it to PNG"),
    (b"\xc5\xd0\xd3\xc6", "a PostScript file: convert it to PNG"),
    (b"<svg", "a vector drawing (SVG): convert it to PNG"),
    (b"<?xml", "an XML file, not an image"),
    (b"<!DOCTYPE", "a web page, not an image"),
    (b"<html", "a web page, not an image"),
    (b"FUJIFILMCCD-RAW", _RAW_ADVICE),
    (b"IIU\0", _RAW_ADVICE),  # Panasonic
    (b"IIRO", _RAW_ADVICE),  # Olympus
    (b"FOVb", _RAW_ADVICE),  # Sigma
    (b"version https://git-lfs", "a Git LFS pointer: fetch the real file with `git lfs pull`"),
)


class DecodedPhoto(NamedTuple):
    """An image as the import stores it."""

    size: tuple[int, int]
    """Width and height of the upright original."""

    square: Image.Image
    """Centre square in RGB."""

    metadata: PhotoMetadata


def decode_square(raw: RawImage, size: int) -> tuple[tuple[int, int], Image.Image]:
    """Decode an image and crop its centre square.

    Args:
        raw: an encoded file, or an (H, W) or (H, W, channels) array.
        size: side of the square, in pixels.

    Returns:
        Width and height of the upright image, and the square in RGB.

    Raises:
        UnreadableError: the image cannot be decoded; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        return _decode_open_image(image, size)


def decode_photo(raw: RawImage, size: int) -> DecodedPhoto:
    """Decode an image as `decode_square` does, and read its metadata while it is open.

    Raises:
        UnreadableError: the image cannot be decoded; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        # Pillow closes a TIFF file after decoding. Reading the EXIF data of a PNG decodes the pixels and hides damage.
        early = _read_metadata(image) if image.format == "TIFF" else None
        dimensions, square = _decode_open_image(image, size)
        return DecodedPhoto(dimensions, square, early or _read_metadata(image))


def read_metadata(raw: RawImage) -> PhotoMetadata:
    """Return the metadata of an image, without decoding the pixels of a JPEG.

    Raises:
        UnreadableError: the header cannot be read; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        return _read_metadata(image)


def decode_stretched(raw: RawImage, size: int) -> tuple[tuple[int, int], Image.Image]:
    """Decode an image without cropping, and stretch it to a square.

    Args:
        raw: as for `decode_square`.
        size: side of the square, in pixels.

    Returns:
        Width and height of the upright image, and the stretched image in RGB.

    Raises:
        UnreadableError: the image cannot be decoded; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        width, height = image.size
        orientation = _load_pixels(image, size)
        resized = _to_eight_bits(image).resize((size, size), Image.Resampling.BICUBIC, reducing_gap=_DRAFT_FACTOR)
        square = _turn_upright(_flatten(resized), orientation)
    return ((height, width) if orientation in _SIDES_SWAPPED else (width, height)), square


def decode_whole(raw: RawImage, side: int) -> Image.Image:
    """Decode an image without cropping: upright, with its aspect ratio, no side longer than `side` pixels.

    Raises:
        UnreadableError: the image cannot be decoded; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        orientation = _load_pixels(image, side)
        fitted = _to_eight_bits(image)
        fitted.thumbnail((side, side), Image.Resampling.BICUBIC, reducing_gap=float(_DRAFT_FACTOR))
        return _turn_upright(_flatten(fitted), orientation)


def read_image_size(raw: RawImage) -> tuple[int, int]:
    """Return width and height from the header alone, before the EXIF orientation is applied.

    Raises:
        UnreadableError: the header cannot be read; the message is the reason that the user sees.
    """
    with _explain_errors(raw), open_raw_image(raw) as image:
        return image.size


def open_raw_image(raw: RawImage) -> Image.Image:
    """Open an image without decoding it.

    The formats are those of Pillow, HEIC if pillow-heif is installed, and the JPEG that a RAW photograph contains.
    """
    if not isinstance(raw, bytes):
        return Image.fromarray(raw[..., 0] if raw.shape[2:] == (1,) else raw)
    if not raw:
        raise UnreadableError("the file is empty")
    if is_camera_raw(raw):
        return _open_raw_preview(raw)
    if _is_heif(raw) and _register_heif():
        return Image.open(io.BytesIO(raw), formats=(_HEIF,))
    try:
        return Image.open(io.BytesIO(raw), formats=_COMMON_FORMATS)
    except UnidentifiedImageError:
        return Image.open(io.BytesIO(raw), formats=_list_rare_formats())


def _open_raw_preview(raw: bytes) -> Image.Image:
    preview = open_raw_preview(raw)
    if preview is None:
        raise UnreadableError(_RAW_ADVICE)
    return preview


@contextmanager
def _explain_errors(raw: RawImage) -> Iterator[None]:
    """Convert any error of a decoder to an `UnreadableError` with a reason for the user."""
    try:
        yield
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(_describe_error(error, raw)) from None


def _describe_error(error: Exception, raw: RawImage) -> str:
    text = str(error)
    if isinstance(error, UnidentifiedImageError):
        return _describe_foreign_file(bytes(raw[:512])) if isinstance(raw, bytes) else "not an image"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels: it would unpack to more than half a gigabyte"
    if isinstance(error, MemoryError):
        return "too large for this computer's memory"
    if isinstance(error, (EOFError, struct.error)) or "truncated" in text.lower() or "not enough" in text:
        return "truncated: the file ends before the image does"
    return f"damaged: {text or type(error).__name__}"


def _describe_foreign_file(start: bytes) -> str:
    """Describe the kind of a file that no decoder accepts."""
    for magic, reason in _FOREIGN_SIGNATURES:
        if start.lstrip().startswith(magic):
            return reason
    if start[4:8] == b"ftyp":
        return _describe_container(start)
    if not start.strip(b"\0"):
        return "not an image: it holds only zeros"
    if start.isascii() and b"\0" not in start:
        return "a text file, not an image"
    return "not an image that Pillow can read"


def _describe_container(start: bytes) -> str:
    """Describe a file of the ISO base media format: a photograph or a video."""
    if _is_heif(start):
        return _DAMAGED_HEIF if _register_heif() else _HEIF_ADVICE
    return _RAW_ADVICE if start[8:12] == b"crx " else "a video, not an image"


def _is_heif(start: bytes) -> bool:
    """Return whether a file is a HEIC or HEIF photograph; AVIF files, which Pillow reads, are not."""
    brands = start[8 : min(int.from_bytes(start[:4], "big"), _MAX_BRAND_BYTES)]
    return start[4:8] == b"ftyp" and brands[:4] in _HEIF_BRANDS and b"avif" not in brands


@cache
def _register_heif() -> bool:
    """Register the decoder of HEIC photographs; return whether it is installed. Loaded only if there is such a file."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True


@cache
def _list_rare_formats() -> tuple[str, ...]:
    """Return Pillow's other formats. Separate, because loading all plugins takes longer than decoding many images."""
    Image.init()
    return tuple(name for name in Image.ID if name not in _REFUSED_FORMATS)


def _decode_open_image(image: Image.Image, size: int) -> tuple[tuple[int, int], Image.Image]:
    width, height = image.size
    orientation = _load_pixels(image, size)
    square = _crop_centre_square(_to_eight_bits(image), size, orientation)
    return ((height, width) if orientation in _SIDES_SWAPPED else (width, height)), square


def _read_metadata(image: Image.Image) -> PhotoMetadata:
    try:
        return read_photo_metadata(image)
    except Exception:  # a damaged EXIF block does not affect the pixels
        return PhotoMetadata()


def _load_pixels(image: Image.Image, side: int) -> int:
    """Decode the pixels, a JPEG at reduced size, and return the EXIF orientation."""
    image.draft(None, (_DRAFT_FACTOR * side,) * 2)
    image.load()  # before the EXIF data: reading the EXIF data of a PNG decodes the pixels and hides damage
    try:
        return int(image.getexif().get(_EXIF_ORIENTATION, 1))
    except Exception:  # a damaged EXIF block does not affect the pixels
        return 1


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Convert an image to L, RGB or RGBA (premultiplied during resizing, flattened afterwards)."""
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _scale_to_eight_bits(image)
    if image.mode == "1":
        return image.convert("L")
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        return image.convert("RGBA")
    return image.convert("RGB")


def _scale_to_eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit grey by its full range, floats within 0 to 1 by 1, and other values by their minimum and maximum."""
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


def _crop_centre_square(image: Image.Image, size: int, orientation: int) -> Image.Image:
    """Resize the short side to `size` and crop the centre in one resampling, then turn the small square upright.

    The box is not rounded to pixels, so rotating before or after the crop gives the same square.
    """
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) / 2, (height - short) / 2
    box = (left, top, left + short, top + short)
    square = image
    if image.size != (size, size):
        square = image.resize((size, size), Image.Resampling.BICUBIC, box, reducing_gap=float(_DRAFT_FACTOR))
    return _turn_upright(_flatten(square), orientation)


def _turn_upright(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(_TRANSPOSITIONS[orientation]) if orientation in _TRANSPOSITIONS else image


def _flatten(image: Image.Image) -> Image.Image:
    """Convert to RGB, with transparent pixels on a white background."""
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")
