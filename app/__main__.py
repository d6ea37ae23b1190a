"""`python -m app`: start the server. `run_app.py` sets everything up before it comes here."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from app.server import HOST, PortTakenError, listen, serve
from app.window import open_window
from crlc.errors import CrlcError
from crlc.workspace import Workspace, default_workspace


def main() -> int:
    """Read the options, listen, serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve CRLC Studio on this computer.")
    showing = parser.add_mutually_exclusive_group()
    showing.add_argument("--no-browser", action="store_true", help="do not open the browser")
    showing.add_argument("--window", action="store_true", help="open a window of its own instead of a browser's tab")
    parser.add_argument("--host", default=HOST, help="address to listen on; other than 127.0.0.1, a token is asked for")
    parser.add_argument("--port", type=int, help="port to listen on; by default 8501, or any that is free")
    parser.add_argument("--workspace", type=Path, default=default_workspace(), help="where data sets and runs are kept")
    options = parser.parse_args()
    try:
        workspace = Workspace(options.workspace)
        socket = listen(options.port, options.host)
    except (CrlcError, PortTakenError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    show = None if options.no_browser else open_window if options.window else webbrowser.open
    serve(socket, workspace.root, show=show)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
