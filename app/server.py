"""The web server: Streamlit's pages and our own routes in one ASGI app, on this computer only.

Streamlit's own settings are in .streamlit/config.toml beside this file.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_INET, IPPROTO_TCP, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, TCP_NODELAY, socket

HOST = "127.0.0.1"
USUAL_PORT = 8501
_MAIN_SCRIPT = Path(__file__).with_name("main.py")
_PORTS = range(1, 65536)


class PortTakenError(Exception):
    """The port that was asked for cannot be had."""


def listen(port: int | None) -> socket:
    """Bind the port asked for, or the usual one, or any that is free.

    Raises:
        PortTakenError: a port was asked for and is not free.
    """
    if port is not None:
        if port not in _PORTS:
            raise PortTakenError(f"--port {port} is not allowed: it must be from 1 to 65535.")
        try:
            return _bound(port)
        except OSError as error:
            raise PortTakenError(
                f"--port {port} cannot be used: {error.strerror}. Leave it out, or choose another."
            ) from None
    try:
        return _bound(USUAL_PORT)
    except OSError:
        return _bound(0)


def _bound(port: int) -> socket:
    # With the protocol named and TCP_NODELAY set, small answers do not wait 40 ms for an acknowledgement.
    bound = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers share a port
            bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        bound.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        bound.bind((HOST, port))
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def serve(bound: socket, workspace: Path, *, open_browser: bool) -> None:
    """Serve the app on a bound socket until Ctrl-C or a termination signal."""
    os.environ["CRLC_WORKSPACE"] = str(workspace.absolute())
    import streamlit as st
    import uvicorn
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from app.routes import ROUTES

    url = f"http://{HOST}:{bound.getsockname()[1]}"

    @asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        sys.stdout.write(f"CRLC Studio is at {url} (Ctrl-C ends it). Workspace: {workspace}\n")
        sys.stdout.flush()
        if open_browser:
            webbrowser.open(url)
        yield

    app = st.App(
        _MAIN_SCRIPT,
        routes=ROUTES,
        lifespan=lifespan,
        # A web page elsewhere that points its own name at 127.0.0.1 must not get at the images.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
    )
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="websockets-sansio", timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[bound])
