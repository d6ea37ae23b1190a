"""`python -m app`: start the server. `run_app.py` sets everything up before it comes here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.server import PortTakenError, listen, serve
from crlc.workspace import default_workspace


def main() -> int:
    """Read the options, listen, serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m app", description="Serve CRLC Studio on this computer.")
    parser.add_argument("--no-browser", action="store_true", help="do not open the browser")
    parser.add_argument("--port", type=int, help="port to listen on; by default 8501, or any that is free")
    parser.add_argument("--workspace", type=Path, default=default_workspace(), help="where data sets and runs are kept")
    options = parser.parse_args()
    try:
        socket = listen(options.port)
    except PortTakenError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    serve(socket, options.workspace, open_browser=not options.no_browser)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
