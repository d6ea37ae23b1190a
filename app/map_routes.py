"""Routes of the map: places, ids and colours as bytes, by the name of a run or data set. No path from the browser.

The address carries the state it is of, so that the browser may keep the answer; one of another state is refused.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.exploring.colouring import colouring
from app.exploring.opened import open_named
from app.exploring.subject import METHODS, Subject
from crlc.errors import CrlcError
from crlc.workspace import Workspace

_HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_CHANGED = "it changed in another window"


def places_url(subject: Subject, method: str) -> str:
    """Where the browser finds a map: two little-endian float32 per image, from -1 to 1."""
    return f"{_base(subject)}/places/{method}.bin?v={subject.layout}"


def ids_url(subject: Subject) -> str:
    """Where the browser finds the ids: one little-endian uint32 per image, in the order of the map."""
    return f"{_base(subject)}/ids.bin?v={subject.layout}"


def values_url(subject: Subject, by: str) -> str:
    """Where the browser finds the colours: one little-endian uint16 per image, in the order of the map."""
    return f"{_base(subject)}/values/{by}.bin?v={subject.version}"


def serve_places(request: Request) -> Response:
    """A map that was computed before."""
    method = request.path_params["method"]
    if method not in METHODS:
        return PlainTextResponse(f"no map is called so; there are {', '.join(METHODS)}", 404)
    try:
        subject = _subject(request)
        places = subject.places(method)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    if places is None:
        return PlainTextResponse("this map has not been computed yet", 404)
    return _binary(request, places, "<f4", subject.layout)


def serve_ids(request: Request) -> Response:
    """Which images they are."""
    try:
        subject = _subject(request)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return _binary(request, subject.ids, "<u4", subject.layout)


def serve_values(request: Request) -> Response:
    """What points are coloured by."""
    try:
        subject = _subject(request)
        values = colouring(subject, request.path_params["by"]).values
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return _binary(request, values, "<u2", subject.version)


def _base(subject: Subject) -> str:
    return f"/maps/{subject.kind}/{quote(subject.name, safe='')}"


def _subject(request: Request) -> Subject:
    return open_named(Workspace(), request.path_params["kind"], request.path_params["name"])


def _binary(request: Request, array: NDArray[Any], kind: str, state: str) -> Response:
    if request.query_params.get("v", state) != state:
        return PlainTextResponse(_CHANGED, 409)
    return Response(
        np.ascontiguousarray(array, kind).tobytes(), media_type="application/octet-stream", headers=_HEADERS
    )


MAP_ROUTES = [
    Route("/maps/{kind}/{name}/places/{method}.bin", serve_places),
    Route("/maps/{kind}/{name}/ids.bin", serve_ids),
    Route("/maps/{kind}/{name}/values/{by}.bin", serve_values),
]
