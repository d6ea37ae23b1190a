"""Small JPEGs for people to look at, with the original's aspect."""

from __future__ import annotations

import io

from PIL import Image

from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode_fitted
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError

_JPEG_QUALITY = 85


def thumbnail(dataset: ImageDataset, image_id: int, side: int) -> bytes:
    """One image as a JPEG, no side longer than `side`.

    It comes from the original; from the pixel store, as a square, when the original is away.

    Raises:
        NotFoundError: the data set has no such readable image.
    """
    record = dataset.record(image_id)
    try:
        image = decode_fitted(dataset.source().read(record.path), side)
    except (SourceError, UnreadableError):
        store = dataset.pixels()
        image = Image.fromarray(store.read([image_id])[0])
        image.thumbnail((side, side))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_JPEG_QUALITY)
    return stream.getvalue()
