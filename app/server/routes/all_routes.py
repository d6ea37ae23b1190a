"""The list of all routes that the server has beside the pages of Streamlit."""

from __future__ import annotations

from starlette.middleware import Middleware
from starlette.routing import Route

from app.server.routes.error_responses import ExplainErrorsMiddleware
from app.server.routes.exports import EXPORT_ROUTES
from app.server.routes.galleries import GALLERY_ROUTES
from app.server.routes.images import serve_image
from app.server.routes.lists import LIST_ROUTES
from app.server.routes.maps import MAP_ROUTES
from app.server.routes.search import SEARCH_ROUTES
from app.server.routes.uploads import UPLOAD_ROUTES

_PLAIN_ROUTES = [
    *MAP_ROUTES,
    *EXPORT_ROUTES,
    *GALLERY_ROUTES,
    *LIST_ROUTES,
    *SEARCH_ROUTES,
    *UPLOAD_ROUTES,
    Route("/images/{dataset}/{image_id}", serve_image),
]
_EXPLAIN_ERRORS = [Middleware(ExplainErrorsMiddleware)]
ROUTES = [
    Route(route.path, route.endpoint, methods=route.methods, middleware=_EXPLAIN_ERRORS) for route in _PLAIN_ROUTES
]
"""All routes; errors that a route does not expect are answered with their text."""
