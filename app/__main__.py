"""Command line of the app server: `python -m app`. `run_app.py` installs the requirements first."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from app.server.asgi import LOOPBACK_HOST, bind_socket, serve
from app.server.window import open_window
from crlc.errors import CrlcError
from crlc.subprocesses import avoid_spinning_threads
from crlc.workspace import Workspace, get_default_workspace


def main() -> int:
    """Parse the options and serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve CRLC Studio on this computer.")
    opening = parser.add_mutually_exclusive_group()
    opening.add_argument("--no-browser", action="store_true", help="do not open the browser")
    opening.add_argument("--window", action="store_true", help="open a separate window instead of a browser tab")
    parser.add_argument(
        "--host",
        default=LOOPBACK_HOST,
        help="address to listen on; default: this computer only. Other addresses require a token",
    )
    parser.add_argument("--port", type=int, help="port to listen on; default: 8501, or any free port")
    parser.add_argument("--workspace", type=Path, default=get_default_workspace(), help="folder of datasets and runs")
    options = parser.parse_args()
    avoid_spinning_threads()
    try:
        workspace = Workspace(options.workspace)
        socket = bind_socket(options.port, options.host)
    except CrlcError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    open_url = None if options.no_browser else open_window if options.window else webbrowser.open
    serve(socket, workspace.root, open_url=open_url)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
