"""The web server: Streamlit's pages and the routes of the app in one ASGI app, by default on this computer only.

Streamlit's own settings are in .streamlit/config.toml beside this file.
"""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
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
from typing import NamedTuple

from crlc.errors import CrlcError

LOOPBACK_HOST = "127.0.0.1"
_ALL_INTERFACES = "0.0.0.0"
DEFAULT_PORT = 8501
_MAIN_SCRIPT = Path(__file__).with_name("main.py")
_VALID_PORTS = range(1, 65536)


class _Access(NamedTuple):
    """Addresses of the app, and the token that they need."""

    token: str | None
    """Token that requests need; `None` if only this computer can reach the app."""

    hosts: list[str]
    """Allowed values of the Host header."""

    local_url: str
    """URL for a browser on this computer."""

    urls: list[str]
    """URLs to print; those that other computers can use come first."""


class BindError(CrlcError):
    """The requested port or address cannot be used."""


def bind_socket(port: int | None, host: str = LOOPBACK_HOST) -> socket:
    """Return a socket that listens on the requested port, or on the default port, or on any free port.

    Args:
        port: from 1 to 65535; `None` to choose one.
        host: a name or IPv4 address of this computer; 0.0.0.0 for all its interfaces.

    Raises:
        BindError: the requested port is not free, or the host is not this computer.
    """
    address = _resolve_address(host)
    if port is not None:
        if port not in _VALID_PORTS:
            raise BindError(f"--port {port} is not allowed: it must be from 1 to 65535.")
        try:
            return _bind(address, port)
        except OSError as error:
            raise BindError(
                f"--port {port} cannot be used: {error.strerror}.",
                advice="Choose another port, or leave the option out.",
            ) from None
    try:
        return _bind(address, DEFAULT_PORT)
    except OSError:
        return _bind(address, 0)


def _resolve_address(host: str) -> str:
    """Return the IPv4 address of a name or address of this computer."""
    try:
        address = str(getaddrinfo(host, None, AF_INET, SOCK_STREAM)[0][4][0])
        with socket(AF_INET, SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except (gaierror, OSError, UnicodeError):
        raise BindError(
            f"--host {host} is not allowed: it must be a name or IPv4 address of this computer, or {_ALL_INTERFACES}."
        ) from None
    return address


def is_loopback(address: str) -> bool:
    """Return whether only this computer can reach an address."""
    return ip_address(address).is_loopback


def list_allowed_hosts(address: str) -> list[str]:
    """Return the allowed values of the Host header; checking it prevents DNS rebinding."""
    known = [LOOPBACK_HOST, "localhost"]
    if address == _ALL_INTERFACES:
        import psutil

        known += [one.address for found in psutil.net_if_addrs().values() for one in found if one.family == AF_INET]
    elif address not in known:
        known.append(address)
    if not is_loopback(address):
        known.append(gethostname().lower())
    return list(dict.fromkeys(known))


def _bind(address: str, port: int) -> socket:
    # Without TCP_NODELAY every small response takes 44 ms. asyncio sets it on connections only if the protocol of the
    # socket is named (IPPROTO_TCP).
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


def serve(bound: socket, workspace: Path, *, open_url: Callable[[str], object] | None = webbrowser.open) -> None:
    """Serve the app on a bound socket until Ctrl-C or a termination signal.

    Args:
        bound: the listening socket. If other computers can reach it, requests need a token, which is printed.
        workspace: folder of the datasets and runs.
        open_url: opens a URL for the user; `None` to open nothing.
    """
    os.environ["CRLC_WORKSPACE"] = str(workspace.absolute())
    from app.server.library_imports import protect_imports

    protect_imports()  # before any thread starts
    import streamlit as st
    import uvicorn
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    from app.server.auth import AccessMiddleware, NoFrameMiddleware
    from app.server.routes.all_routes import ROUTES

    access = _choose_access(bound)

    @asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        with _run_background_services(workspace):
            _print_urls(access, workspace)
            if open_url is not None:
                open_url(access.local_url)
            yield

    app = st.App(
        _MAIN_SCRIPT,
        routes=ROUTES,
        lifespan=lifespan,
        middleware=[
            # DNS rebinding: a web page that resolves its own host name to 127.0.0.1 must not read the images.
            Middleware(TrustedHostMiddleware, allowed_hosts=access.hosts, www_redirect=False),
            Middleware(AccessMiddleware, token=access.token),
        ],
    )
    config = uvicorn.Config(
        NoFrameMiddleware(app),
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        timeout_graceful_shutdown=2,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after a complete shutdown
        uvicorn.Server(config).run(sockets=[bound])


def _choose_access(bound: socket) -> _Access:
    """Return how a bound socket is reached; it needs a token if other computers can reach it."""
    from app.server.auth import TOKEN_PARAMETER

    address, port = bound.getsockname()
    token = None if is_loopback(address) else secrets.token_urlsafe(24)
    hosts = list_allowed_hosts(address)
    local_host = LOOPBACK_HOST if address == _ALL_INTERFACES else address
    printed_hosts = [local_host] if token is None else _select_printed_hosts(hosts, address)
    path_and_query = "" if token is None else f"/?{TOKEN_PARAMETER}={token}"
    local_url, *urls = (f"http://{host}:{port}{path_and_query}" for host in (local_host, *printed_hosts))
    return _Access(token, hosts, local_url, urls)


@contextmanager
def _run_background_services(workspace: Path) -> Iterator[None]:
    """Run the job queue, the installation of the example, and the map process; afterwards, end what the app started."""
    from app.background.commands import close_command_runner
    from app.background.example import start_example_install
    from app.background.map_worker import schedule_map_worker
    from crlc.jobs.shared_queue import close_queues, get_queue
    from crlc.workspace import Workspace

    get_queue(Workspace(workspace))
    start_example_install(Workspace(workspace))
    close_map_worker = schedule_map_worker()
    try:
        yield
    finally:
        close_map_worker()
        close_command_runner()
        for line in close_queues():
            _print_line(line)


def _print_urls(access: _Access, workspace: Path) -> None:
    first, *others = access.urls
    _print_line(f"CRLC Studio is at {first} (press Ctrl-C to stop). Workspace: {workspace}")
    for url in others:
        _print_line(f"  also at {url}")
    if access.token is not None:
        _print_line(
            "Anyone with this address can see your images and start training runs. The connection is not encrypted."
        )


def _select_printed_hosts(hosts: list[str], address: str) -> list[str]:
    """Return the hosts to print: those by which other computers can reach the app."""
    if address != _ALL_INTERFACES:
        return [address]
    return [host for host in hosts if host not in (LOOPBACK_HOST, "localhost")] or [LOOPBACK_HOST]


def _print_line(line: str) -> None:
    with suppress(BrokenPipeError):  # the reader closed the pipe
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
