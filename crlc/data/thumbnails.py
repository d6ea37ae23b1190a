"""Thumbnails of images: of the original or, if it cannot be read, of the stored square pixels."""

from __future__ import annotations

import io
from typing import NamedTuple

from PIL import Image

from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode_whole
from crlc.data.manifest import ImageRecord
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError

_JPEG_QUALITY = 85
_SMALL_FILE_QUALITY = 75
_MAX_PNG_SIDE = 64
"""Longest side of a thumbnail that is a PNG, which is lossless and small at this size."""


class Thumbnail(NamedTuple):
    """An encoded thumbnail and its media type."""

    content: bytes
    media_type: str


def make_thumbnail(dataset: ImageDataset, image_id: int, side: int, *, is_small_file: bool = False) -> Thumbnail:
    """Return the thumbnail of the image with an id; see `make_record_thumbnail`.

    Raises:
        NotFoundError: the dataset has no readable image with this id.
    """
    return make_record_thumbnail(dataset, dataset.read_record(image_id), side, is_small_file=is_small_file)


def make_record_thumbnail(
    dataset: ImageDataset, record: ImageRecord, side: int, *, is_small_file: bool = False
) -> Thumbnail:
    """Return the thumbnail of an imported image; small originals are not enlarged.

    It is made from the original or, if that cannot be read, from the square image in the pixel store.

    Args:
        dataset: the dataset of the image.
        record: its row of the manifest.
        side: maximum of width and height, in pixels.
        is_small_file: True for a file with few bytes instead of a lossless one.

    Raises:
        NotFoundError: neither the original nor stored pixels exist.
    """
    try:
        image = decode_whole(dataset.source.read(record.path), side)
    except (SourceError, UnreadableError):
        image = Image.fromarray(dataset.read_pixels(record.id))
        image.thumbnail((side, side))
    stream = io.BytesIO()
    if max(image.size) <= _MAX_PNG_SIDE and not is_small_file:
        image.save(stream, "PNG")
        return Thumbnail(stream.getvalue(), "image/png")
    image.save(stream, "JPEG", quality=_SMALL_FILE_QUALITY if is_small_file else _JPEG_QUALITY, optimize=is_small_file)
    return Thumbnail(stream.getvalue(), "image/jpeg")
