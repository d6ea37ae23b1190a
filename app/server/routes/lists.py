"""Routes of CSV downloads: unreadable files, duplicates and labels. The browser never sends a path."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TextIO

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.server.routes.exports import build_attachment_header
from app.server.routes.images import HEADERS
from app.view_models.view_cache import open_annotations
from crlc.annotations.label_csv import write_label_file
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.workspace import Workspace


def serve_problems(request: Request) -> Response:
    """Send the unreadable files of a dataset with their reasons, as CSV."""
    return _serve_csv(request, "problems", ImageDataset.write_unreadable_csv)


def serve_duplicates(request: Request) -> Response:
    """Send the images of a dataset that have exact duplicates, as CSV."""
    return _serve_csv(request, "duplicates", ImageDataset.write_duplicates_csv)


def serve_labels(request: Request) -> Response:
    """Send the labels of a dataset as CSV; it needs no run."""
    return _serve_csv(request, "labels", _write_labels)


def _write_labels(dataset: ImageDataset, stream: TextIO) -> int:
    return write_label_file(dataset, open_annotations(dataset).refresh(), stream)


def _serve_csv(request: Request, name: str, write: Callable[[ImageDataset, TextIO], int]) -> Response:
    stream = StringIO(newline="")
    try:
        dataset = Workspace().open_dataset(request.path_params["dataset"])
        write(dataset, stream)
    except CrlcError as error:
        return PlainTextResponse(str(error), 404)
    headers = {
        **HEADERS,
        "Cache-Control": "no-store",
        "Content-Disposition": build_attachment_header(f"{dataset.name}-{name}.csv"),
    }
    return Response(stream.getvalue(), media_type="text/csv", headers=headers)


LIST_ROUTES = [
    Route("/problems/{dataset}", serve_problems),
    Route("/duplicates/{dataset}", serve_duplicates),
    Route("/labels/{dataset}", serve_labels),
]
