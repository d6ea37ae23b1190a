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
ORIGINAL_SIDE = 16_384
"""Longest side of an image at its original resolution; only a single larger image would exceed the memory of a page."""

HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",  # the URLs contain the hash of the content
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def serve_image(request: Request) -> Response:
    """Send one image of a dataset, with its longer side at most as requested, or at its original resolution."""
    side = request.query_params.get("side", "256")
    if side == ORIGINAL:
        side = str(ORIGINAL_SIDE)
    elif not side.isdecimal() or int(side) not in SIDES:
        return PlainTextResponse(f"side must be from {SIDES.start} to {SIDES.stop - 1}", 400)
    try:
        thumbnail = make_thumbnail(
            open_dataset(request.path_params["dataset"]), request.path_params["image_id"], int(side)
        )
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
