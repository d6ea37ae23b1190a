"""Command `app`: start the app in the browser."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from crlc.cli.output import Output
from crlc.installation import get_studio_folder
from crlc.workspace import Workspace


def add_app_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the server, which `crlc app` and `python -m app` share."""
    opening = parser.add_mutually_exclusive_group()
    opening.add_argument("--no-browser", action="store_true", help="do not open the browser")
    opening.add_argument("--window", action="store_true", help="open a separate window instead of a browser tab")
    parser.add_argument(
        "--host", help="address to listen on (default: this computer only). Other addresses require a token"
    )
    parser.add_argument("--port", type=int, help="port to listen on (default: 8501, or any free port)")


def run_app(options: argparse.Namespace, workspace: Workspace, _: Output) -> int:
    """Serve the app until it is stopped."""
    # By name, because `crlc` does not depend on the app; first, because `app` may also be a module of the user.
    sys.path.insert(0, str(get_studio_folder()))
    import_module("app.__main__").serve_workspace(options, workspace)
    return 0
