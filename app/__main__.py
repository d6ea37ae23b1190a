"""Command line of the app server: `python -m app`. `run_app.py` installs the requirements first."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from app.server.asgi import LOOPBACK_HOST, bind_socket, serve
from app.server.window import open_window
from crlc.cli.app import add_app_arguments
from crlc.errors import CrlcError
from crlc.subprocesses import avoid_spinning_threads
from crlc.workspace import Workspace, get_default_workspace


def main() -> int:
    """Parse the options and serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve CRLC Studio on this computer.")
    add_app_arguments(parser)
    parser.add_argument("--workspace", type=Path, default=get_default_workspace(), help="folder of datasets and runs")
    options = parser.parse_args()
    avoid_spinning_threads()
    try:
        serve_workspace(options, Workspace(options.workspace))
    except CrlcError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def serve_workspace(options: argparse.Namespace, workspace: Workspace) -> None:
    """Serve a workspace until stopped; `crlc app` calls this.

    Args:
        options: those of `add_app_arguments`.
        workspace: its datasets and runs are shown.

    Raises:
        CrlcError: the address or the port cannot be used.
    """
    socket = bind_socket(options.port, options.host or LOOPBACK_HOST)
    open_url = None if options.no_browser else open_window if options.window else webbrowser.open
    serve(socket, workspace.root, open_url=open_url)


if __name__ == "__main__":
    raise SystemExit(main())
