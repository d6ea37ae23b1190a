"""Small pictures for people to look at, with the original's aspect."""

from __future__ import annotations

import io
from typing import NamedTuple

from PIL import Image

from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode_fitted
from crlc.data.manifest import ImageRecord
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError

_JPEG_QUALITY = 85
TINY = 64
"""Up to that many pixels a side a PNG is small too, and shows every pixel as it is."""


class Thumbnail(NamedTuple):
    """An encoded picture, ready to be sent."""

    content: bytes
    media_type: str


def is_tiny(record: ImageRecord) -> bool:
    """Whether a pixel is to stay a pixel when it is shown: blurred, an image of so few says nothing."""
    return record.width is not None and record.height is not None and max(record.width, record.height) <= TINY


def thumbnail(dataset: ImageDataset, image_id: int, side: int) -> Thumbnail:
    """One image by its id; see `thumbnail_of`.

    Raises:
        NotFoundError: the data set has no such readable image.
    """
    return thumbnail_of(dataset, dataset.record(image_id), side)


def thumbnail_of(dataset: ImageDataset, record: ImageRecord, side: int) -> Thumbnail:
    """One readable image, no side longer than `side`; small originals are not enlarged.

    It comes from the original; from the pixel store, as a square, when the original is away.

    Raises:
        NotFoundError: neither original nor stored pixels are there.
    """
    try:
        image = decode_fitted(dataset.source.read(record.path), side)
    except (SourceError, UnreadableError):
        image = Image.fromarray(dataset.stored_pixels(record.id))
        image.thumbnail((side, side))
    stream = io.BytesIO()
    if max(image.size) <= TINY:
        image.save(stream, "PNG")
        return Thumbnail(stream.getvalue(), "image/png")
    image.save(stream, "JPEG", quality=_JPEG_QUALITY)
    return Thumbnail(stream.getvalue(), "image/jpeg")
