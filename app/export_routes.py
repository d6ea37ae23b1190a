"""Routes of exports: a run's result as a file, by run and format only; written while one waits, then deleted."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.exporting import FORMATS, ExportOptions, Format, file_name, run_named, write_export
from crlc.errors import CrlcError, NotFoundError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.export.file_names import safe_file_name

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_ELSEWHERE = "cross-site"


def attachment(name: str) -> str:
    """The header that has the browser save an answer under a name, whatever letters it has (RFC 5987)."""
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def export_url(run: RunFolder, one: Format, options: ExportOptions) -> str:
    """Where the browser finds an export."""
    asked = {"map": options.map or "", "excluded": "" if options.excluded else "no"}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"/exports/{quote(run.id, safe='')}/{one.key}" + (f"?{query}" if query else "")


def serve_export(request: Request) -> Response:
    """Write an export to a temporary file, in a thread of its own as all of these, and send it."""
    if request.headers.get("sec-fetch-site") == _ELSEWHERE:  # it may take long: no page elsewhere may begin it
        return PlainTextResponse("Requests from other web pages are refused.", 403)
    place = Path(tempfile.mkdtemp(prefix="crlc-export-"))
    try:
        workspace = Workspace()
        one = FORMATS.get(request.path_params["format"])
        if one is None or not one.ending:
            raise NotFoundError(f"No file has this format; there are {_files()}.")
        run = run_named(workspace, request.path_params["run"])
        asked = request.query_params
        options = ExportOptions(asked.get("map") or None, excluded=asked.get("excluded") != "no")
        name = safe_file_name(file_name(run, one))
        file = place / name
        write_export(workspace, run, one, file, options)
    except CrlcError as error:
        shutil.rmtree(place, ignore_errors=True)
        return PlainTextResponse(str(error), 404 if isinstance(error, NotFoundError) else 409, headers=_HEADERS)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    headers = {**_HEADERS, "Content-Disposition": attachment(name)}
    return _Passing(file, media_type=one.media_type, headers=headers)


class _Passing(FileResponse):
    """A file that is deleted once it was sent, or once nobody wants it any more."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            shutil.rmtree(Path(self.path).parent, ignore_errors=True)


def _files() -> str:
    return ", ".join(one.key for one in FORMATS.values() if one.ending)


EXPORT_ROUTES = [Route("/exports/{run}/{format}", serve_export)]
