"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from crlc.cli.output import PROGRESS_FORMATS
from crlc.training.device import DEVICES
from crlc.training.settings import ENGINES


def add_common_arguments(parser: argparse.ArgumentParser, *, below: bool = False) -> None:
    """Add the arguments of every command.

    Args:
        parser: parser of a command, or of an action below it such as `label DATASET set`.
        below: the parser belongs to an action; arguments that are omitted there must not reset those of the command.
    """
    unset, off = (argparse.SUPPRESS, argparse.SUPPRESS) if below else (None, False)
    parser.add_argument(
        "--workspace",
        type=Path,
        metavar="DIR",
        default=unset,
        help="folder of datasets and runs (default: $CRLC_WORKSPACE, else a folder in the user's data directory)",
    )
    parser.add_argument("--json", action="store_true", default=off, help="print the result as one JSON object")
    parser.add_argument("--debug", action="store_true", default=off, help="print the traceback of an error")
    # For programs that run `crlc` commands: one JSON object per line of stderr instead of text for people.
    parser.add_argument(
        "--progress",
        choices=PROGRESS_FORMATS,
        default=argparse.SUPPRESS if below else PROGRESS_FORMATS[0],
        help=argparse.SUPPRESS,
    )


def add_dataset_argument(parser: argparse.ArgumentParser) -> None:
    """Add the dataset that a command works on."""
    parser.add_argument("dataset", metavar="DATASET", help="name of a dataset")


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Add the run that a command works on."""
    parser.add_argument("run", metavar="RUN", help="run id, unique prefix, or 'last'")


def add_device_argument(parser: argparse.ArgumentParser) -> None:
    """Add the device to compute on."""
    parser.add_argument(
        "--device", default="auto", choices=DEVICES, help="device to compute on; auto prefers a GPU (default: auto)"
    )


def add_devices_argument(parser: argparse.ArgumentParser) -> None:
    """Add the number of processes that share the work."""
    parser.add_argument(
        "--devices", type=int, default=1, metavar="N", help="number of processes, one per GPU (default: 1)"
    )


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    """Add the engine that computes the features of a frozen backbone."""
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="engine that computes the features of a pretrained backbone; auto uses OpenVINO on a CPU (default: auto)",
    )
