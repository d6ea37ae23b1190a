"""The pictures of one page of a gallery in one answer: sixty requests take longer than sixty pictures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.image_routes import HEADERS, SIDES, reader_of
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import ImageRecord
from crlc.data.thumbnails import thumbnail_of
from crlc.errors import CrlcError
from crlc.workspace.image_lookup import records_of

MOST_PICTURES = 120
_LENGTH_BYTES = 4
_LARGEST_ID = 2**53
_decoders = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="gallery")
"""Decoding leaves the interpreter free, so that a few threads decode at the same time."""


def gallery_url(dataset: str, ids: Sequence[int], content_hashes: Sequence[str], side: int) -> str:
    """Where the browser finds some images, for ever: other content has another address."""
    state = hashlib.blake2b(" ".join(content_hashes).encode(), digest_size=6).hexdigest()
    return f"/galleries/{dataset}?side={side}&ids={','.join(map(str, ids))}&v={state}"


def serve_gallery(request: Request) -> Response:
    """Images of a known data set in the order asked for, each after its length (little-endian, 4 bytes).

    An image that is not there or cannot be read has the length 0. They are sent as they are ready.
    """
    side, given = request.query_params.get("side", ""), request.query_params.get("ids", "").split(",")
    if not side.isdecimal() or int(side) not in SIDES:
        return PlainTextResponse(f"side must be from {SIDES.start} to {SIDES.stop - 1}", 400)
    if len(given) > MOST_PICTURES or not all(text.isdecimal() and int(text) < _LARGEST_ID for text in given):
        return PlainTextResponse(f"ids must be at most {MOST_PICTURES} numbers with commas between them", 400)
    ids = [int(text) for text in given]
    try:
        dataset = reader_of(request.path_params["dataset"])
        records = records_of(dataset, np.array(ids, np.int64))
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    # Said to be as it is, it is not compressed on its way: pictures are already.
    headers = {**HEADERS, "Content-Encoding": "identity"}
    pictures = _pictures(dataset, [records.get(number) for number in ids], int(side))
    return StreamingResponse(pictures, media_type="application/octet-stream", headers=headers)


def _pictures(dataset: ImageDataset, records: Sequence[ImageRecord | None], side: int) -> Iterator[bytes]:
    works = [_decoders.submit(_picture, dataset, record, side) for record in records]
    ready: list[bytes] = []
    try:
        for work in works:
            if ready and not work.done():
                yield b"".join(ready)
                ready.clear()
            content = work.result()
            ready += [len(content).to_bytes(_LENGTH_BYTES, "little"), content]
        yield b"".join(ready)
    finally:  # nobody waits for the rest when the page was turned meanwhile
        for work in works:
            work.cancel()


def _picture(dataset: ImageDataset, record: ImageRecord | None, side: int) -> bytes:
    """The encoded picture; nothing when it cannot be shown."""
    if record is None or record.status != "ok":
        return b""
    try:
        return thumbnail_of(dataset, record, side).content
    except CrlcError:
        return b""


GALLERY_ROUTES = [Route("/galleries/{dataset}", serve_gallery)]
