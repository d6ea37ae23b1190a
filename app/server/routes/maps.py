"""Routes of the map: coordinates, ids and colour values as bytes, by the name of a run or dataset.

The URL contains a version, so that the browser can cache the response; a request for another version is rejected.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.server.routes.images import parse_number
from app.view_models.cluster_levels import open_level
from app.view_models.cluster_view import ClusterView
from app.view_models.colouring import compute_colouring
from app.view_models.view_cache import open_view
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import CrlcError
from crlc.workspace import Workspace

_HEADERS = {
    "Cache-Control": "private, max-age=86400, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_STALE = "the clusters changed in another window"


def build_coordinates_url(view: ClusterView, method: str) -> str:
    """Return the URL of a map: two little-endian float32 per image, from -1 to 1."""
    return f"{_build_base_url(view)}/coordinates/{method}.bin?v={view.layout_version}"


def build_ids_url(view: ClusterView) -> str:
    """Return the URL of the image ids: one little-endian uint32 per image, in the order of the map."""
    return f"{_build_base_url(view)}/ids.bin?v={view.layout_version}"


def build_values_url(view: ClusterView, by: str) -> str:
    """Return the URL of the colour values: one little-endian uint16 per image, in the order of the map."""
    level = "" if view.shown_level is None else f"&level={view.shown_level}"
    return f"{_build_base_url(view)}/values/{quote(by, safe='')}.bin?v={view.version}{level}"


def serve_coordinates(request: Request) -> Response:
    """Send a map that was computed before."""
    method = request.path_params["method"]
    if method not in MAP_METHODS:
        return PlainTextResponse(f"{method!r} is not a map method; choose one of: {', '.join(MAP_METHODS)}", 404)
    try:
        view = _open_requested_view(request)
        coordinates = view.load_coordinates(method)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    if coordinates is None:
        return PlainTextResponse("this map has not been computed yet", 404)
    return _send_array(request, coordinates, "<f4", view.layout_version)


def serve_ids(request: Request) -> Response:
    """Send the ids of the images."""
    try:
        view = _open_requested_view(request)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return _send_array(request, view.ids, "<u4", view.layout_version)


def serve_values(request: Request) -> Response:
    """Send the values that points are coloured by."""
    try:
        view = _open_requested_view(request)
        values = compute_colouring(view, request.path_params["by"]).values
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    return _send_array(request, values, "<u2", view.version)


def _build_base_url(view: ClusterView) -> str:
    return f"/maps/{view.kind}/{quote(view.name, safe='')}"


def _open_requested_view(request: Request) -> ClusterView:
    view = open_view(Workspace(), request.path_params["kind"], request.path_params["name"])
    level = parse_number(request.query_params.get("level", ""))
    return view if level is None else open_level(view, level)


def _send_array(request: Request, array: NDArray[Any], dtype: str, state: str) -> Response:
    if request.query_params.get("v", state) != state:
        return PlainTextResponse(_STALE, 409)
    return Response(
        np.ascontiguousarray(array, dtype).tobytes(), media_type="application/octet-stream", headers=_HEADERS
    )


MAP_ROUTES = [
    Route("/maps/{kind}/{name}/coordinates/{method}.bin", serve_coordinates),
    Route("/maps/{kind}/{name}/ids.bin", serve_ids),
    Route("/maps/{kind}/{name}/values/{by:path}.bin", serve_values),  # the name of a column may have a slash
]
