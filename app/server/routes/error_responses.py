"""Responses to the errors that a route does not expect: damaged files, missing permissions, a full disk."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crlc.errors import NotFoundError, explain_system_error
from crlc.workspace import get_default_workspace

_NOT_FOUND, _CONFLICT = 404, 409
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class ExplainErrorsMiddleware:
    """ASGI app that answers the errors of another one with their text, as the pages show them.

    Errors that are not about the workspace or the system, and those of a response that has begun, are raised again.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Store the app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app, and send a response if it fails before it has sent one."""
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            explained = None if has_begun else explain_system_error(error, get_default_workspace())
            if explained is None:
                raise
            status = _NOT_FOUND if isinstance(explained, NotFoundError) else _CONFLICT
            await PlainTextResponse(str(explained), status, headers=_HEADERS)(scope, receive, send)
