"""Route of exports: the result of a run as a file, by run and format, written to a temporary folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.view_models.export_previews import open_exporter, open_run
from crlc.errors import CrlcError, NotFoundError
from crlc.export.destinations import make_safe_file_name
from crlc.runs.folder import RunFolder
from crlc.services.export import FORMATS, ExportFormat, ExportOptions
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


def build_export_url(run: RunFolder, export_format: ExportFormat, options: ExportOptions) -> str:
    """Return the URL of an export."""
    parameters = {"map": options.map or "", "excluded": "" if options.excluded else "no"}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"/exports/{quote(run.id, safe='')}/{export_format.key}" + (f"?{query}" if query else "")


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
        exporter = open_exporter(workspace, open_run(workspace, request.path_params["run"]))
        parameters = request.query_params
        options = ExportOptions(parameters.get("map") or None, excluded=parameters.get("excluded") != "no")
        name = make_safe_file_name(exporter.build_default_file_name(export_format))
        file = folder / name
        exporter.write(export_format, file, options)
    except CrlcError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return PlainTextResponse(str(error), 404 if isinstance(error, NotFoundError) else 409, headers=_HEADERS)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    headers = {**_HEADERS, "Content-Disposition": build_attachment_header(name)}
    return _TemporaryFileResponse(file, media_type=export_format.media_type, headers=headers)


class _TemporaryFileResponse(FileResponse):
    """Response with a file that is deleted once it is sent or the client disconnects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            shutil.rmtree(Path(self.path).parent, ignore_errors=True)


EXPORT_ROUTES = [Route("/exports/{run}/{format}", serve_export)]
