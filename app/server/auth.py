"""Access control: same-origin requests only, no foreign frames, and a token for connections from other computers."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_COOKIE = "crlc-token"
TOKEN_PARAMETER = "token"
_YEAR_SECONDS = 365 * 24 * 3600
_TOKEN_REQUIRED = (
    "This app needs a token: open the complete address that the app printed when it started, including ?token=..."
)
_CROSS_ORIGIN = "Cross-origin requests are not allowed."
_MALFORMED_ORIGIN = "The Origin header is not a URL."
# Another site must not show the app in a frame, where it could make the user click on something else (clickjacking).
_NO_FRAME_HEADERS = {"X-Frame-Options": "DENY", "Content-Security-Policy": "frame-ancestors 'none'"}


class NoFrameMiddleware:
    """ASGI middleware that forbids other sites to show a response in a frame; it must be the outermost one.

    Starlette itself answers requests with a foreign Host header and after an error, without its other middleware.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an app."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass every request on, and add the headers to its response."""

        async def send_without_frames(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_NO_FRAME_HEADERS)
            await send(message)

        await self._app(scope, receive, send_without_frames)


class AccessMiddleware:
    """ASGI middleware that checks origin and token of pages, routes and websockets.

    The Host header has already been checked by Starlette's `TrustedHostMiddleware`.
    """

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        """Wrap an app.

        Args:
            app: receives the allowed requests.
            token: token that a browser must send once, in the URL; `None` to require none.
        """
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an allowed request on, and reject others with 403, or 400 if a header is malformed."""
        response = self._reject(scope) if scope["type"] in ("http", "websocket") else None
        if response is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # the connect event; closing before accepting is a 403 in the browser
            await send({"type": "websocket.close", "code": 1008})
        else:
            await response(scope, receive, send)

    def _reject(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            origin_host = None if origin is None else urlsplit(origin).netloc
        except ValueError:  # such as http://[ without the rest of an address
            return PlainTextResponse(_MALFORMED_ORIGIN, 400)
        if origin is not None and origin_host != headers.get("host"):
            return PlainTextResponse(_CROSS_ORIGIN, 403)
        if self._token is None or any(map(self._is_token, _read_token_cookies(headers))):
            return None
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["type"] == "http" and self._is_token(dict(parameters).get(TOKEN_PARAMETER, "")):
            return self._set_token_cookie(scope["path"], [pair for pair in parameters if pair[0] != TOKEN_PARAMETER])
        return PlainTextResponse(_TOKEN_REQUIRED, 403)

    def _is_token(self, candidate: str) -> bool:
        # Constant time, so that the token cannot be guessed character by character.
        return hmac.compare_digest(candidate.encode(), (self._token or "").encode())

    def _set_token_cookie(self, path: str, parameters: list[tuple[str, str]]) -> Response:
        """Store the token in a cookie, and redirect to the URL without it: URLs are copied and stored in histories."""
        # One slash: the browser reads two as the start of another host (open redirect).
        target = "/" + path.lstrip("/\\") + (f"?{urlencode(parameters)}" if parameters else "")
        response = RedirectResponse(target, 303)
        response.set_cookie(
            TOKEN_COOKIE, self._token or "", max_age=_YEAR_SECONDS, httponly=True, samesite="lax"
        )  # `strict` cookies are not sent after a link from another site
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def _read_token_cookies(headers: Headers) -> list[str]:
    """Return the whole values of all cookies with the token's name, exactly as the browser sent them.

    Not with `http.cookies`: it ends a value at white space, so that a cookie with the token and more was accepted.
    """
    pairs = (pair.strip(" ").partition("=") for line in headers.getlist("cookie") for pair in line.split(";"))
    return [value for name, _, value in pairs if name == TOKEN_COOKIE]
