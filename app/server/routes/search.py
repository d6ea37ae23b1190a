"""Route of the suggestions that the search box shows while the user types."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.view_models.cluster_view import ClusterView
from app.view_models.view_cache import open_view
from app.view_models.words import get_text_search
from crlc.errors import CrlcError
from crlc.paths import to_printable
from crlc.workspace import Workspace

_MAX_TEXT_CHARACTERS = 200
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def build_suggestions_url(view: ClusterView) -> str:
    """Return the URL of the suggestions for a view; the text is its parameter `q`."""
    return f"/search/{view.kind}/{quote(view.name, safe='')}"


def serve_suggestions(request: Request) -> Response:
    """Send completions of a text, with the number of images that each finds."""
    text = request.query_params.get("q", "")[:_MAX_TEXT_CHARACTERS]
    try:
        view = open_view(Workspace(), request.path_params["kind"], request.path_params["name"])
        found = get_text_search(view).suggest(text)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    rows = [{"kind": one.kind, "text": to_printable(one.text), "images": one.images} for one in found]
    return JSONResponse({"suggestions": rows}, headers=_HEADERS)


SEARCH_ROUTES = [Route("/search/{kind}/{name}", serve_suggestions)]
