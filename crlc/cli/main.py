"""`crlc`: reads the command line, runs one command, and turns errors into one line."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from crlc import __version__
from crlc.cli import (
    analysis,
    assign,
    clusters,
    count,
    curation,
    datasets,
    doctor,
    explore,
    export,
    labels,
    neighbours,
    runs,
    train,
)
from crlc.cli.options import common_options
from crlc.cli.output import Output
from crlc.cli.processes import tell_launcher
from crlc.errors import CrlcError, UsageError
from crlc.workspace import Workspace


@dataclass(frozen=True)
class Command:
    """One word of the command line: how it is described, which options it has, what it does."""

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Workspace, Output], int]


COMMANDS: dict[str, Command] = {
    "import": Command(
        "Make a data set of images, or bring one up to date.", datasets.import_arguments, datasets.run_import
    ),
    "datasets": Command("List the data sets.", lambda _: None, datasets.run_datasets),
    "dataset": Command(
        "Show one data set: counts, classes, problems.", datasets.dataset_arguments, datasets.run_dataset
    ),
    "relink": Command("Tell a data set where its originals are now.", datasets.relink_arguments, datasets.run_relink),
    "remove": Command("Forget a data set; originals are not touched.", datasets.remove_arguments, datasets.run_remove),
    "explore": Command(
        "Look at a data set before training: map, provisional clusters.",
        explore.explore_arguments,
        explore.run_explore,
    ),
    "count": Command("Suggest a number of clusters for a data set.", count.count_arguments, count.run_count),
    "train": Command("Train a run on a data set.", train.train_arguments, train.run_train),
    "resume": Command("Go on with a run that was stopped.", train.resume_arguments, train.run_resume),
    "stop": Command("Stop a run; it can be resumed.", runs.run_argument, runs.run_stop),
    "runs": Command("List the runs.", lambda _: None, runs.run_runs),
    "show": Command("Show one run: state, metrics, curve.", runs.run_argument, runs.run_show),
    "assign": Command("Give new images the clusters of a run or model.", assign.assign_arguments, assign.run_assign),
    "neighbours": Command(
        "Find the images of a run most like some.", neighbours.neighbours_arguments, neighbours.run_neighbours
    ),
    "map": Command("Make the map of a run.", analysis.map_arguments, analysis.run_map),
    "quality": Command("Say how good the clusters of a run are.", analysis.quality_arguments, analysis.run_quality),
    "compare": Command("Compare two runs of a data set.", analysis.compare_arguments, analysis.run_compare),
    "suggest": Command(
        "Suggest clusters to merge or split, images to label.", curation.suggest_arguments, curation.run_suggest
    ),
    "duplicates": Command(
        "Find near duplicates in a data set or run.", curation.duplicates_arguments, curation.run_duplicates
    ),
    "outliers": Command("Find the odd images of a run.", curation.outliers_arguments, curation.run_outliers),
    "clusters": Command("List or edit the clusters of a run.", clusters.clusters_arguments, clusters.run_clusters),
    "label": Command("Label or exclude images of a data set.", labels.label_arguments, labels.run_label),
    "export": Command(
        "Take a run's result away: a table, a page, links, a model.", export.export_arguments, export.run_export
    ),
    "doctor": Command(
        "Check this computer: versions, device, disk, what is missing.", lambda _: None, doctor.run_doctor
    ),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(prog="crlc", description="Find the groups in a folder of images nobody has labelled.")
    parser.add_argument("--version", action="version", version=f"crlc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help, description=command.help)
        command.arguments(subparser)
        common_options(subparser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrongly called."""
    # File names may hold any byte; printing one must never be what fails.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    warnings.filterwarnings("ignore", module="PIL")
    debug = "--debug" in (sys.argv if arguments is None else arguments)
    try:
        options = build_parser().parse_args(arguments)
        return COMMANDS[options.command].run(options, Workspace(options.workspace), Output(as_json=options.json))
    except CrlcError as error:
        return _failed(str(error), error.exit_code, debug=debug)
    except KeyboardInterrupt:
        return _failed("Interrupted. What was finished is kept: run the same command to carry on.", 1, debug=debug)
    except BrokenPipeError:
        # Whoever read us has enough; the interpreter must not complain about it when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except PermissionError as error:
        return _failed(
            f"{error.filename}: permission denied. Check your rights, or choose another --workspace.", 1, debug=debug
        )
    except Exception as error:
        text = f"Unexpected {type(error).__name__}: {error}. Run it again with --debug and report what it shows."
        return _failed(text, 1, debug=debug)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See: {self.prog} --help")


def _failed(message: str, exit_code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    line = " ".join(message.split())
    if not tell_launcher(line):
        print(f"error: {line}", file=sys.stderr)
    return exit_code
