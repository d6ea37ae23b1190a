"""Route of exports: the result of a run as a file, by run and format, written to a temporary folder."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.view_models.export_previews import open_exporter, open_provisional_exporter, open_run
from crlc.errors import CrlcError, NotFoundError
from crlc.services.export import FORMATS, PROVISIONAL_FORMATS
from crlc.services.export_types import ExportFormat, ExportOptions
from crlc.services.exporters import Exporter, ProvisionalExporter
from crlc.workspace import Workspace

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_CROSS_SITE = "cross-site"


def build_attachment_header(name: str) -> str:
    """Return the Content-Disposition header that saves a response under a name with any characters (RFC 5987)."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def build_export_url(exporter: Exporter, export_format: ExportFormat, options: ExportOptions) -> str:
    """Return the URL of an export."""
    parameters = {
        "map": options.map or "",
        "excluded": "" if options.excluded else "no",
        "absolute": "yes" if options.absolute_paths else "",
        "features": "" if options.features == "z" else options.features,
        "columns": "no" if export_format.has_columns and not options.columns else "",
    }
    query = urlencode({name: value for name, value in parameters.items() if value})
    is_provisional = isinstance(exporter, ProvisionalExporter)
    name = (
        f"provisional/{quote(exporter.dataset.name, safe='')}"
        if is_provisional
        else quote(exporter.get_run().id, safe="")
    )
    return f"/exports/{name}/{export_format.key}" + (f"?{query}" if query else "")


def serve_export(request: Request) -> Response:
    """Write an export to a temporary file and send it; Starlette runs this in a thread."""
    if request.headers.get("sec-fetch-site") == _CROSS_SITE:  # an export is slow: other sites must not start one
        return PlainTextResponse("Cross-origin requests are not allowed.", 403)
    folder = Path(tempfile.mkdtemp(prefix="crlc-export-"))
    try:
        workspace = Workspace()
        export_format = FORMATS.get(request.path_params["format"])
        if export_format is None or export_format.is_folder:
            keys = ", ".join(entry.key for entry in FORMATS.values() if not entry.is_folder)
            raise NotFoundError(f"{request.path_params['format']!r} is not a file format. Choose one of: {keys}.")
        exporter = _open_exporter(workspace, request, export_format)
        parameters = request.query_params
        options = ExportOptions(
            parameters.get("map") or None,
            excluded=parameters.get("excluded") != "no",
            absolute_paths=parameters.get("absolute") == "yes",
            features=parameters.get("features") or "z",
            columns=parameters.get("columns") != "no",
        )
        file = folder / exporter.build_default_file_name(export_format)
        exporter.write(export_format, file, options)
        if export_format.has_script:
            file = _pack(file)
    except CrlcError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return PlainTextResponse(str(error), 404 if isinstance(error, NotFoundError) else 409, headers=_HEADERS)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    headers = {**_HEADERS, "Content-Disposition": build_attachment_header(file.name)}
    return _TemporaryFileResponse(file, media_type=export_format.media_type, headers=headers)


def build_download_name(exporter: Exporter, export_format: ExportFormat) -> str:
    """Return the name of the file that the browser saves: a file with its script is a zip archive."""
    name = exporter.build_default_file_name(export_format)
    return str(Path(name).with_suffix(".zip")) if export_format.has_script else name


def _pack(file: Path) -> Path:
    """Pack all files of the folder of an export into a zip archive beside them; return it."""
    packed = file.with_suffix(".zip")
    contents = sorted(file.parent.iterdir())
    with zipfile.ZipFile(packed, "x") as archive:  # without compression: weights are random numbers
        for content in contents:
            archive.write(content, content.name)
    return packed


def _open_exporter(workspace: Workspace, request: Request, export_format: ExportFormat) -> Exporter:
    """Return the exporter of the run or dataset in the URL.

    Raises:
        NotFoundError: it does not exist, or provisional clusters cannot have the format.
    """
    if "run" in request.path_params:
        return open_exporter(workspace, open_run(workspace, request.path_params["run"]))
    if export_format.key not in PROVISIONAL_FORMATS:
        raise NotFoundError(f"Provisional clusters cannot be exported as {export_format.title}.")
    return open_provisional_exporter(workspace, workspace.open_dataset(request.path_params["dataset"]))


class _TemporaryFileResponse(FileResponse):
    """Response with a file that is deleted once it is sent or the client disconnects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            shutil.rmtree(Path(self.path).parent, ignore_errors=True)


EXPORT_ROUTES = [
    Route("/exports/provisional/{dataset}/{format}", serve_export),
    Route("/exports/{run}/{format}", serve_export),
]
