"""Route of galleries: all images of a page in one response, which is faster than one request per image."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.server.routes.images import HEADERS, open_dataset, parse_number, parse_side, reject_side
from app.urls import MAX_GALLERY_IMAGES
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.data.manifest import ImageRecord
from crlc.data.thumbnails import make_record_thumbnail
from crlc.errors import CrlcError

_LENGTH_BYTES = 4
_decoders = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="gallery")
"""Decoding releases the GIL, so that a few threads decode at the same time."""


def serve_gallery(request: Request) -> Response:
    """Send images of a dataset in the requested order, each after its length (4 bytes, little-endian).

    A missing or unreadable image has length 0. Images are sent as soon as they are encoded.
    """
    side, given = parse_side(request.query_params.get("side", "")), request.query_params.get("ids", "").split(",")
    if side is None:
        return reject_side()
    ids = [number for number in map(parse_number, given[: MAX_GALLERY_IMAGES + 1]) if number is not None]
    if len(given) > MAX_GALLERY_IMAGES or len(ids) != len(given):
        return PlainTextResponse(f"ids must be at most {MAX_GALLERY_IMAGES} numbers with commas between them", 400)
    try:
        dataset = open_dataset(request.path_params["dataset"])
        records = read_records(dataset, np.array(ids, np.int64))
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    # `identity` prevents compression by middleware: the images are compressed already.
    headers = {**HEADERS, "Content-Encoding": "identity"}
    images = _stream_images(dataset, [records.get(number) for number in ids], side)
    return StreamingResponse(images, media_type="application/octet-stream", headers=headers)


def _stream_images(dataset: ImageDataset, records: Sequence[ImageRecord | None], side: int) -> Iterator[bytes]:
    futures = [_decoders.submit(_encode_image, dataset, record, side) for record in records]
    ready: list[bytes] = []
    try:
        for future in futures:
            if ready and not future.done():
                yield b"".join(ready)
                ready.clear()
            content = future.result()
            ready += [len(content).to_bytes(_LENGTH_BYTES, "little"), content]
        yield b"".join(ready)
    finally:  # the rest is not needed if the client disconnected
        for future in futures:
            future.cancel()


def _encode_image(dataset: ImageDataset, record: ImageRecord | None, side: int) -> bytes:
    """Return an encoded image; empty if it cannot be read."""
    if record is None or record.status != "ok":
        return b""
    try:
        return make_record_thumbnail(dataset, record, side).content
    except CrlcError:
        return b""


GALLERY_ROUTES = [Route("/galleries/{dataset}", serve_gallery)]
