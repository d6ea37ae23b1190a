"""Access middleware, called as an ASGI app without a server: token cookies, malformed headers, foreign frames."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from app.server.auth import AccessMiddleware, NoFrameMiddleware

TOKEN = "aB3-_xyz0123456789ABCDEFGHIJKLMN"


def send(token: str | None = None, **headers: str) -> tuple[int, dict[str, str]]:
    """Send a request to the middleware, and return the status and the headers of the response."""
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", b"x:1"), *raw]}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def record(message: Any) -> None:
        sent.append(message)

    # Nothing waits for input or output, so no event loop is needed; that of the browser may run in this thread.
    with suppress(StopIteration):
        NoFrameMiddleware(AccessMiddleware(PlainTextResponse("ok"), token))(scope, receive, record).send(None)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def test_access_needs_the_whole_token_in_a_cookie():
    parts = {TOKEN[start:end] for start in range(len(TOKEN)) for end in range(start, len(TOKEN) + 1)} - {TOKEN}
    changed = {TOKEN[:number] + "?" + TOKEN[number + 1 :] for number in range(len(TOKEN))}
    longer = {f"{TOKEN} rest", f"{TOKEN}\trest", f"\t{TOKEN}", f'"{TOKEN}"', f"{TOKEN}=", f"{TOKEN},{TOKEN}"}
    for value in {*list(parts)[::7], *changed, *longer, "", TOKEN.lower()}:
        assert send(TOKEN, cookie=f"crlc-token={value}")[0] == 403, value
    assert send(TOKEN, cookie=f"{TOKEN}")[0] == 403
    assert send(TOKEN, cookie=f"other=1; crlc-token={TOKEN}; more=2")[0] == 200
    assert send(TOKEN, cookie=f"crlc-token=old; crlc-token={TOKEN}")[0] == 200


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//[x]y", "http://a]"])
def test_access_rejects_a_malformed_origin(origin: str):
    assert send(origin=origin)[0] == 400


def test_access_forbids_foreign_frames_in_every_response():
    for status, headers in (send(), send(TOKEN), send(origin="http://evil.example")):
        assert headers["x-frame-options"] == "DENY", status
        assert headers["content-security-policy"] == "frame-ancestors 'none'"
