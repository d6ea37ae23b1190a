"""Options that every command has."""

from __future__ import annotations

import argparse
from pathlib import Path


def common_options(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Add them; `below` another parser that has them too, one that is left out must not undo the other's."""
    default = argparse.SUPPRESS if below else None
    parser.add_argument(
        "--workspace", type=Path, metavar="DIR", default=default, help="where data sets and runs are kept"
    )
    absent = argparse.SUPPRESS if below else False
    parser.add_argument("--json", action="store_true", default=absent, help="print one JSON object on stdout")
    parser.add_argument("--debug", action="store_true", default=absent, help="show the traceback of an error")
