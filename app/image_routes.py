"""One image by data set and id, and what all routes that serve images share. No path ever comes from the browser."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from crlc.data.dataset import ImageDataset
from crlc.data.thumbnails import thumbnail
from crlc.errors import CrlcError
from crlc.workspace import Workspace

SIDES = range(16, 2049)
HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",  # the page's URLs carry the content's hash
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def image_url(dataset: str, image_id: int, content_hash: str, side: int) -> str:
    """Where the browser finds one image, for ever: other content has another address."""
    return f"/images/{dataset}/{image_id}?side={side}&v={content_hash[:12]}"


def serve_image(request: Request) -> Response:
    """One image of a known data set, its longer side at most as asked for."""
    side = request.query_params.get("side", "256")
    if not side.isdecimal() or int(side) not in SIDES:
        return PlainTextResponse(f"side must be from {SIDES.start} to {SIDES.stop - 1}", 400)
    try:
        picture = thumbnail(reader_of(request.path_params["dataset"]), request.path_params["image_id"], int(side))
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return Response(picture.content, media_type=picture.media_type, headers=HEADERS)


def reader_of(name: str) -> ImageDataset:
    """What reads a data set.

    Raises:
        CrlcError: there is none, or it is damaged.
    """
    dataset = Workspace().dataset(name)
    return _first_reader(dataset, dataset.version)


@lru_cache(maxsize=16)
def _first_reader(dataset: ImageDataset, _: int) -> ImageDataset:
    """The first of all equal readers, so that an archive's directory is read once and not per image."""
    return dataset
