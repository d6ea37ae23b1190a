"""All our own routes, and those of lists to keep. No path ever comes from the browser."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TextIO

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.exploring.opened import annotations_of
from app.export_routes import EXPORT_ROUTES, attachment
from app.gallery_routes import GALLERY_ROUTES
from app.image_routes import HEADERS, serve_image
from app.map_routes import MAP_ROUTES
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.workspace import Workspace
from crlc.workspace.label_table import write_labels


def problems_url(dataset: str) -> str:
    """Where the browser finds the list of a data set's unreadable files."""
    return f"/problems/{dataset}"


def duplicates_url(dataset: str) -> str:
    """Where the browser finds the list of a data set's images that have exact copies."""
    return f"/duplicates/{dataset}"


def labels_url(dataset: str) -> str:
    """Where the browser finds what people said of a data set's images."""
    return f"/labels/{dataset}"


def serve_problems(request: Request) -> Response:
    """The unreadable files of a known data set with their reasons, as a CSV file to keep."""
    return _list(request, "problems", ImageDataset.write_problems)


def serve_duplicates(request: Request) -> Response:
    """The images of a known data set that have exact copies, as a CSV file to keep."""
    return _list(request, "duplicates", ImageDataset.write_duplicates)


def serve_labels(request: Request) -> Response:
    """What people said of the images of a known data set, as a CSV file to keep; no run is needed."""
    return _list(request, "labels", _write_labels)


def _write_labels(dataset: ImageDataset, stream: TextIO) -> int:
    return write_labels(dataset, annotations_of(dataset).refresh(), stream)


def _list(request: Request, what: str, write: Callable[[ImageDataset, TextIO], int]) -> Response:
    stream = StringIO(newline="")
    try:
        dataset = Workspace().dataset(request.path_params["dataset"])
        write(dataset, stream)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    headers = {**HEADERS, "Cache-Control": "no-store", "Content-Disposition": attachment(f"{dataset.name}-{what}.csv")}
    return Response(stream.getvalue(), media_type="text/csv", headers=headers)


ROUTES = [
    *MAP_ROUTES,
    *EXPORT_ROUTES,
    *GALLERY_ROUTES,
    Route("/images/{dataset}/{image_id:int}", serve_image),
    Route("/problems/{dataset}", serve_problems),
    Route("/duplicates/{dataset}", serve_duplicates),
    Route("/labels/{dataset}", serve_labels),
]
