"""The web server: Streamlit's pages and our own routes in one ASGI app, on this computer only unless asked otherwise.

Streamlit's own settings are in .streamlit/config.toml beside this file.
"""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from socket import (
    AF_INET,
    IPPROTO_TCP,
    SO_REUSEADDR,
    SOCK_STREAM,
    SOL_SOCKET,
    TCP_NODELAY,
    gaierror,
    getaddrinfo,
    gethostname,
    socket,
)

HOST = "127.0.0.1"
_EVERYWHERE = "0.0.0.0"
USUAL_PORT = 8501
_MAIN_SCRIPT = Path(__file__).with_name("main.py")
_PORTS = range(1, 65536)


class PortTakenError(Exception):
    """The port or address that was asked for cannot be had."""


def listen(port: int | None, host: str = HOST) -> socket:
    """Bind the port asked for, or the usual one, or any that is free.

    Args:
        port: which; none to choose one.
        host: a name or IPv4 address of this computer; 0.0.0.0 for all it has.

    Raises:
        PortTakenError: a port was asked for and is not free, or the host is not this computer.
    """
    address = _address_of(host)
    if port is not None:
        if port not in _PORTS:
            raise PortTakenError(f"--port {port} is not allowed: it must be from 1 to 65535.")
        try:
            return _bound(address, port)
        except OSError as error:
            raise PortTakenError(
                f"--port {port} cannot be used: {error.strerror}. Leave it out, or choose another."
            ) from None
    try:
        return _bound(address, USUAL_PORT)
    except OSError:
        return _bound(address, 0)


def _address_of(host: str) -> str:
    """The IPv4 address of this computer that a person named."""
    try:
        address = str(getaddrinfo(host, None, AF_INET, SOCK_STREAM)[0][4][0])
        with socket(AF_INET, SOCK_STREAM) as trial:
            trial.bind((address, 0))
    except (gaierror, OSError, UnicodeError):
        raise PortTakenError(
            f"--host {host} is not allowed: it must be a name or an IPv4 address of this computer, or {_EVERYWHERE}."
        ) from None
    return address


def is_private(address: str) -> bool:
    """Whether only this computer can reach an address."""
    return ip_address(address).is_loopback


def reachable_as(address: str) -> list[str]:
    """What a browser may call this computer: the Host headers that are answered."""
    known = [HOST, "localhost"]
    if address == _EVERYWHERE:
        import psutil

        known += [one.address for those in psutil.net_if_addrs().values() for one in those if one.family == AF_INET]
    elif address not in known:
        known.append(address)
    if not is_private(address):
        known.append(gethostname().lower())
    return list(dict.fromkeys(known))


def _bound(address: str, port: int) -> socket:
    # With the protocol named and TCP_NODELAY set, small answers do not wait 40 ms for an acknowledgement.
    bound = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers share a port
            bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        bound.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        bound.bind((address, port))
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def serve(bound: socket, workspace: Path, *, show: Callable[[str], object] | None = webbrowser.open) -> None:
    """Serve the app on a bound socket until Ctrl-C or a termination signal.

    Args:
        bound: where to listen. If other computers can reach it, a token is made and asked for.
        workspace: with the data sets and runs.
        show: opens an address for the person; none to leave that to them.
    """
    os.environ["CRLC_WORKSPACE"] = str(workspace.absolute())
    import streamlit as st
    import uvicorn
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from app.guard import PARAMETER, Guard
    from app.routes import ROUTES

    address, port = bound.getsockname()
    token = None if is_private(address) else secrets.token_urlsafe(24)
    hosts = reachable_as(address)
    query = "" if token is None else f"/?{PARAMETER}={token}"
    here = HOST if address == _EVERYWHERE else address
    # For people the address under which others reach it comes first, where there is one.
    urls = [f"http://{host}:{port}{query}" for host in ([here] if token is None else _shown(hosts, address))]

    @asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        from app.first_start import begin_first_start
        from app.measuring import close_measuring
        from crlc.jobs.shared import close_queues, queue_of
        from crlc.workspace import Workspace

        queue_of(Workspace(workspace))
        begin_first_start(Workspace(workspace))
        _say(f"CRLC Studio is at {urls[0]} (Ctrl-C ends it). Workspace: {workspace}")
        for url in urls[1:]:
            _say(f"  also at {url}")
        if token is not None:
            _say("Whoever has this address can see your images and start trainings; it is not encrypted.")
        if show is not None:
            show(f"http://{here}:{port}{query}")
        try:
            yield
        finally:
            close_measuring()
            for line in close_queues():
                _say(line)

    app = st.App(
        _MAIN_SCRIPT,
        routes=ROUTES,
        lifespan=lifespan,
        middleware=[
            # A web page elsewhere that points its own name at 127.0.0.1 must not get at the images.
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
            Middleware(Guard, token=token),
        ],
    )
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, ws="websockets-sansio", timeout_graceful_shutdown=2
    )
    with suppress(KeyboardInterrupt):  # it is raised again when everything has been ended and said
        uvicorn.Server(config).run(sockets=[bound])


def _shown(hosts: list[str], address: str) -> list[str]:
    """The names worth printing: those that other computers can use."""
    if address != _EVERYWHERE:
        return [address]
    return [host for host in hosts if host not in (HOST, "localhost")] or [HOST]


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # whoever started it does not listen any more
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
