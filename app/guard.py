"""Who may talk to the server: nobody from another web page, and from other computers only who has the token."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "crlc-token"
PARAMETER = "token"
_YEAR_SECONDS = 365 * 24 * 3600
_NO_TOKEN = "This app wants a token: open the address that was printed when it was started, with ?token=... in it."
_ELSEWHERE = "Requests from other web pages are refused."


class Guard:
    """Lets a request pass, or answers it: for pages, our own routes and websockets alike."""

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        """Take what is guarded.

        Args:
            app: what is behind.
            token: what a browser must have shown once; none to ask for nothing.
        """
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at one request."""
        answer = self._answer(scope) if scope["type"] in ("http", "websocket") else None
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # its wish to connect; closed before it is accepted, the browser sees a 403
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return PlainTextResponse(_ELSEWHERE, 403)
        if self._token is None or self._is_token(_cookie_in(headers)):
            return None
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["type"] == "http" and self._is_token(dict(asked).get(PARAMETER, "")):
            return self._welcome(scope["path"], [pair for pair in asked if pair[0] != PARAMETER])
        return PlainTextResponse(_NO_TOKEN, 403)

    def _is_token(self, given: str) -> bool:
        # In the same time whatever is given, so that the token cannot be guessed letter by letter.
        return hmac.compare_digest(given.encode(), (self._token or "").encode())

    def _welcome(self, path: str, parameters: list[tuple[str, str]]) -> Response:
        """Keep the token in a cookie and take it out of the address, which people copy and browsers remember."""
        # One slash: with two, the browser would go to another computer.
        target = "/" + path.lstrip("/\\") + (f"?{urlencode(parameters)}" if parameters else "")
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            COOKIE, self._token or "", max_age=_YEAR_SECONDS, httponly=True, samesite="lax"
        )  # strict ones are left out after a link from elsewhere
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer


def _cookie_in(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
