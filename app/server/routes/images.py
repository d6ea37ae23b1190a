"""Route of a single image by dataset and id: the browser never sends a path. Also helpers of the other image routes."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.urls import ORIGINAL
from crlc.data.dataset import ImageDataset
from crlc.data.thumbnails import make_thumbnail
from crlc.errors import CrlcError
from crlc.workspace import Workspace

SIDES = range(16, 2049)
_MAX_DIGITS = 16
ORIGINAL_SIDE = 16_384
"""Longest side of an image at its original resolution; only a single larger image would exceed the memory of a page."""

HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",  # the URLs contain the hash of the content
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def parse_number(text: str) -> int | None:
    """Return a whole number from a URL; `None` if the text is none, or larger than any id.

    Python refuses to convert more than 4,300 digits, and SQLite stores numbers below 2^63 only.
    """
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS else None


def parse_side(text: str) -> int | None:
    """Return the side of images in pixels from a URL; `None` if it is not one of `SIDES`."""
    side = parse_number(text)
    return side if side in SIDES else None


def reject_side() -> Response:
    """Return the response to a request with a side that is not allowed."""
    return PlainTextResponse(f"side must be from {SIDES.start} to {SIDES.stop - 1}", 400)


def serve_image(request: Request) -> Response:
    """Send one image of a dataset, with its longer side at most as requested, or at its original resolution."""
    wanted, image_id = request.query_params.get("side", "256"), parse_number(request.path_params["image_id"])
    side = ORIGINAL_SIDE if wanted == ORIGINAL else parse_side(wanted)
    if side is None:
        return reject_side()
    if image_id is None:
        return PlainTextResponse("there is no image with this id", 404)
    try:
        thumbnail = make_thumbnail(open_dataset(request.path_params["dataset"]), image_id, side)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return Response(thumbnail.content, media_type=thumbnail.media_type, headers=HEADERS)


def open_dataset(name: str) -> ImageDataset:
    """Return a dataset by name.

    Raises:
        CrlcError: the dataset does not exist, or is damaged.
    """
    dataset = Workspace().open_dataset(name)
    return _get_cached_reader(dataset, dataset.version)


@lru_cache(maxsize=16)
def _get_cached_reader(dataset: ImageDataset, _: int) -> ImageDataset:
    """Return the first of all equal datasets, so that the index of an archive is read once and not per image."""
    return dataset
