"""Entry point of the CLI: parses arguments, runs one command and prints errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from crlc import __version__
from crlc.cli import (
    analysis,
    app,
    assign,
    backbones,
    cluster_count,
    clusters,
    datasets,
    doctor,
    explore,
    export,
    features,
    labels,
    neighbours,
    runs,
    search,
    suggestions,
    train,
)
from crlc.cli.launcher import report_to_launcher
from crlc.cli.options import add_common_arguments, add_run_argument
from crlc.cli.output import Output, write_error_line
from crlc.errors import CrlcError, UsageError, explain_system_error
from crlc.subprocesses import avoid_spinning_threads
from crlc.workspace import Workspace, get_default_workspace


@dataclass(frozen=True)
class Command:
    """Description, arguments and function of one command."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Workspace, Output], int]


COMMANDS: dict[str, Command] = {
    "app": Command("Start the app in the browser.", app.add_app_arguments, app.run_app),
    "import": Command(
        "Import images as a dataset, or update an existing dataset.", datasets.add_import_arguments, datasets.run_import
    ),
    "datasets": Command("List all datasets.", lambda _: None, datasets.run_datasets),
    "dataset": Command(
        "Show the images, classes and problems of a dataset.", datasets.add_dataset_arguments, datasets.run_dataset
    ),
    "relink": Command(
        "Set the new location of the original images of a dataset.", datasets.add_relink_arguments, datasets.run_relink
    ),
    "remove": Command(
        "Delete a dataset, but not the original images.", datasets.add_remove_arguments, datasets.run_remove
    ),
    "explore": Command(
        "Compute a map and provisional clusters of a dataset, without training.",
        explore.add_explore_arguments,
        explore.run_explore,
    ),
    "features": Command(
        "Compute the features of photographs, for the first map and training.",
        features.add_features_arguments,
        features.run_features,
    ),
    "count": Command(
        "Suggest a number of clusters for a dataset.", cluster_count.add_count_arguments, cluster_count.run_count
    ),
    "backbones": Command(
        "List pretrained backbones with size and purpose, or download one.",
        backbones.add_backbones_arguments,
        backbones.run_backbones,
    ),
    "train": Command("Train a clustering of a dataset.", train.add_train_arguments, train.run_train),
    "resume": Command("Continue a stopped, failed or interrupted run.", train.add_resume_arguments, train.run_resume),
    "stop": Command("Stop a run. It can be resumed.", add_run_argument, runs.run_stop),
    "runs": Command("List all runs, or those of a group.", runs.add_runs_arguments, runs.run_runs),
    "show": Command("Show the state and metrics of a run.", add_run_argument, runs.run_show),
    "assign": Command(
        "Assign new images to the clusters of a run or model.", assign.add_assign_arguments, assign.run_assign
    ),
    "neighbours": Command(
        "Find the images of a run that are most similar to given images.",
        neighbours.add_neighbours_arguments,
        neighbours.run_neighbours,
    ),
    "search": Command(
        "Find images of a run or dataset by word, name, label or file name.",
        search.add_search_arguments,
        search.run_search,
    ),
    "map": Command("Compute the map of a run.", analysis.add_map_arguments, analysis.run_map),
    "quality": Command(
        "Show quality metrics for the clusters of a run, or blurred and dark images of a dataset.",
        analysis.add_quality_arguments,
        analysis.run_quality,
    ),
    "compare": Command("Compare two runs of the same dataset.", analysis.add_compare_arguments, analysis.run_compare),
    "suggest": Command(
        "Suggest clusters to merge or split, and images to label.",
        suggestions.add_suggest_arguments,
        suggestions.run_suggest,
    ),
    "duplicates": Command(
        "Find near duplicates in a dataset or run.", suggestions.add_duplicates_arguments, suggestions.run_duplicates
    ),
    "outliers": Command("Find the outliers of a run.", suggestions.add_outliers_arguments, suggestions.run_outliers),
    "clusters": Command("List or edit the clusters of a run.", clusters.add_clusters_arguments, clusters.run_clusters),
    "label": Command("Label or exclude images of a dataset.", labels.add_label_arguments, labels.run_label),
    "export": Command(
        "Export a run as a table, web page, folders or model.", export.add_export_arguments, export.run_export
    ),
    "doctor": Command("Check the installation: packages, device and disk space.", lambda _: None, doctor.run_doctor),
}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="crlc", description="Group a folder of unlabelled images automatically.")
    parser.add_argument("--version", action="version", version=f"crlc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help)
        command.arguments(subparser)
        add_common_arguments(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: command-line arguments; `None` for those of this process.

    Returns:
        The exit code: 0 for success, 1 for failure, 2 for invalid arguments.
    """
    avoid_spinning_threads()
    # File names may contain any byte; printing one must not raise an error.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", module="PIL")
    given = sys.argv if arguments is None else arguments
    # Read from the raw arguments, because parsing them may fail.
    fail = partial(_fail, debug="--debug" in given, as_json=("--progress", "json") in pairwise(given))
    options = None
    try:
        options = build_parser().parse_args(arguments)
        output = Output(as_json=options.json, progress_format=options.progress)
        return COMMANDS[options.command].run(options, Workspace(options.workspace), output)
    except CrlcError as error:
        return fail(_format_error(error, options), error.exit_code)
    except KeyboardInterrupt:
        return fail("Interrupted. Progress is saved: run the same command to continue.", 1)
    except BrokenPipeError:
        # The reader closed the pipe; the interpreter must not raise another error when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        explained = explain_system_error(error, _get_workspace_path(options))
        if explained is not None:
            return fail(_format_error(explained, options), explained.exit_code)
        text = (
            f"Unexpected {type(error).__name__}: {error}. Run the command again with --debug and report the traceback."
        )
        return fail(text, 1)


class _Parser(argparse.ArgumentParser):
    """Parser that raises `UsageError`, so that its errors are printed like all others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}.", advice=f"See: {self.prog} --help")


def _get_workspace_path(options: argparse.Namespace | None) -> Path:
    return getattr(options, "workspace", None) or get_default_workspace()


def _format_error(error: CrlcError, options: argparse.Namespace | None) -> str:
    """Return the text of an error, followed by the options of this command that its advice refers to."""
    names = [f"--{name.replace('_', '-')}" for name in error.parameters if hasattr(options, name)]
    return f"{error} (Options: {', '.join(names)}.)" if names else str(error)


def _fail(message: str, exit_code: int, *, debug: bool, as_json: bool) -> int:
    """Print an error in one line, or as one JSON object, and return the exit code."""
    if debug:
        traceback.print_exc()
    line = " ".join(message.split())
    if not report_to_launcher(line):
        if as_json:
            write_error_line(line)
        else:
            print(f"error: {line}", file=sys.stderr)
    return exit_code
