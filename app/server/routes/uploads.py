"""Routes of uploads: the component on the Start page sends files one by one, which are written to disk as they arrive.

The browser sends relative paths. `crlc.services.store_uploads` keeps every file inside the folder of its upload.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import IO

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.server.routes.images import HEADERS, parse_number
from crlc.errors import CrlcError, DiskFullError, NotFoundError
from crlc.services.store_uploads import begin_upload, cancel_upload, open_uploaded_file
from crlc.workspace import Workspace

_WRITE_BYTES = 1 << 20
_NO_CONTENT, _BAD_REQUEST, _NOT_FOUND, _INSUFFICIENT_STORAGE = 204, 400, 404, 507


async def serve_begin(request: Request) -> Response:
    """Create an upload of the given number of bytes, and send its id."""
    given = request.query_params.get("bytes", "")
    if not (given.isascii() and given.isdecimal()):
        return PlainTextResponse("bytes must be a whole number", _BAD_REQUEST)
    size = parse_number(given)
    try:
        upload_id = await run_in_threadpool(begin_upload, Workspace(), sys.maxsize if size is None else size)
    except (CrlcError, OSError) as error:
        return _explain(error)
    return JSONResponse({"id": upload_id}, headers={**HEADERS, "Cache-Control": "no-store"})


async def serve_file(request: Request) -> Response:
    """Store the body of the request as one file of an upload."""
    try:
        with open_uploaded_file(
            Workspace(), request.path_params["upload"], request.query_params.get("path", "")
        ) as file:
            await _write_stream(request.stream(), file)
    except ClientDisconnect:
        return Response(status_code=_BAD_REQUEST)  # the file is deleted again
    except (CrlcError, OSError) as error:
        return _explain(error)
    return Response(status_code=_NO_CONTENT)


async def _write_stream(chunks: AsyncIterator[bytes], file: IO[bytes]) -> None:
    """Write in a thread, and in large pieces: a slow disk must not stop the other pages."""
    waiting = bytearray()
    async for chunk in chunks:
        waiting += chunk
        if len(waiting) >= _WRITE_BYTES:
            await run_in_threadpool(file.write, bytes(waiting))
            waiting.clear()
    await run_in_threadpool(file.write, bytes(waiting))


def serve_cancel(request: Request) -> Response:
    """Delete the files of an upload."""
    cancel_upload(Workspace(), request.path_params["upload"])
    return Response(status_code=_NO_CONTENT)


def _explain(error: CrlcError | OSError) -> Response:
    status = _BAD_REQUEST
    if isinstance(error, DiskFullError):
        status = _INSUFFICIENT_STORAGE
    elif isinstance(error, NotFoundError):
        status = _NOT_FOUND
    return PlainTextResponse(str(error), status, headers=HEADERS)


UPLOAD_ROUTES = [
    Route("/uploads", serve_begin, methods=["POST"]),
    Route("/uploads/{upload}", serve_file, methods=["PUT"]),
    Route("/uploads/{upload}", serve_cancel, methods=["DELETE"]),
]
