"""Commands about data sets: import, datasets, dataset, relink, remove."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crlc.cli.output import Output, TerminalProgress, duration, megabytes, table
from crlc.config import ALL, ImportOptions
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.data.importer import ImportReport
from crlc.data.sources.builtin import BUILTIN_SETS
from crlc.errors import CrlcError, UsageError
from crlc.names import printable
from crlc.workspace import Workspace, default_workspace
from crlc.workspace.removal import remove_with_runs, runs_of_dataset

_SHOWN_REASONS = 8
_SHOWN_CLASSES = 20
_WAY_BACK = {"classes": "auto", "split": ALL, "subset": ALL, "limit": ALL}


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `import`."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help=f"a folder, a .zip, an .npz, a .csv of paths, or one of {', '.join(BUILTIN_SETS)}",
    )
    parser.add_argument("--name", metavar="N", help="what to call the data set; by default after the source")
    parser.add_argument(
        "--size",
        type=int,
        metavar="S",
        help="side of the decoded squares in pixels; by default it fits the images, at most 96",
    )
    parser.add_argument(
        "--classes",
        metavar="auto|folders|none|FILE.csv",
        help="where classes (ground truth) come from; by default from folders when they look like classes",
    )
    parser.add_argument(
        "--split", metavar="train|test|train+test|unlabelled|all", help="which splits to take; by default all"
    )
    parser.add_argument(
        "--subset",
        metavar="NAME|FILE|all",
        help="only these class folders: imagenet10, imagenet-dogs, imagenet50, imagenet100, imagenet200, or a file",
    )
    parser.add_argument(
        "--limit", type=_limit, metavar="N|all", help="at most N images, a spread-out and repeatable sample"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that decode; by default one for each core")
    parser.add_argument(
        "--downloads", type=Path, metavar="DIR", help="where built-in data sets are, or are to be downloaded"
    )


def _limit(text: str) -> int:
    return 0 if text == ALL else int(text)


def run_import(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Make or update a data set."""
    settings = ImportOptions(
        options.size, options.classes, options.split, options.subset, options.limit, options.workers
    )
    dataset, report = workspace.import_dataset(
        options.source, name=options.name, options=settings, downloads=options.downloads, report=TerminalProgress()
    )
    summary = dataset.summary()
    content = {
        "dataset": dataset.name,
        "workspace": str(workspace.root),
        **_report_content(report),
        **_content(dataset, summary),
    }
    kept = {name: value for name, value in dataset.info.options.narrowed.items() if getattr(settings, name) is None}
    lines = _import_lines(dataset, report, summary)
    lines += [
        f"As in an earlier import: {name} {value} (--{name} {_WAY_BACK[name]} undoes it)."
        for name, value in kept.items()
    ]
    output.result(content, lines)
    return 0


def run_datasets(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List all data sets; a damaged one is listed with what is wrong with it."""
    rows: list[list[str]] = []
    content: list[dict[str, Any]] = []
    for name in workspace.dataset_names():
        try:
            dataset = workspace.dataset(name)
            summary = dataset.summary()
        except CrlcError as error:
            content.append({"name": name, "error": str(error)})
            rows.append([name, "-", "-", "-", "damaged", "-"])
            continue
        content.append({"name": name, **_content(dataset, summary)})
        sizes = ", ".join(map(str, summary.sizes)) or "-"
        classes = str(len(summary.classes) or "-")
        rows.append([name, f"{summary.readable:,}", classes, sizes, _state(summary), _place(dataset)])
    lines = table(("name", "images", "classes", "px", "state", "from"), rows) if rows else _how_to_begin(workspace)
    output.result({"workspace": str(workspace.root), "datasets": content}, lines)
    return 0


def dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `dataset`."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--problems", type=Path, metavar="FILE.csv", help="write the unreadable files with their reasons"
    )
    parser.add_argument("--duplicates", type=Path, metavar="FILE.csv", help="write the images that have exact copies")


def run_dataset(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Show one data set."""
    dataset = workspace.dataset(options.name)
    summary = dataset.summary()
    lines = _dataset_lines(workspace, dataset, summary)
    content = {"name": dataset.name, **_content(dataset, summary)}
    for file, write, what in (
        (options.problems, dataset.write_problems, "unreadable files"),
        (options.duplicates, dataset.write_duplicates, "images with exact copies"),
    ):
        if file is not None:
            try:
                with file.open("w", newline="", encoding="utf-8") as stream:
                    count = write(stream)
            except OSError as error:
                raise CrlcError(f"{file} cannot be written: {error.strerror}. Choose another place.") from None
            lines.append(f"Wrote {count:,} {what} to {file}.")
    output.result(content, lines)
    return 0


def relink_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `relink`."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("path", metavar="PATH", help="where the originals are now")


def run_relink(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Point a data set to the new place of its originals."""
    report = workspace.relink(options.name, options.path)
    missing = report.expected - report.found
    place = printable(report.location)
    lines = [f"{options.name} now comes from {place}: {report.found:,} of {report.expected:,} images found."]
    if missing:
        again = _command(workspace, "import", report.location, "--name", options.name)
        lines.append(f"{missing:,} are not there. Bring the data set up to date with: {again}")
    output.result({"dataset": options.name, **asdict(report), "location": place}, lines)
    return 0


def remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `remove`."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--with-runs", action="store_true", help="remove its runs, too; without it they are of no use to anybody"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_remove(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Forget a data set, and its runs where asked for, after asking."""
    own = runs_of_dataset(workspace, options.name) if options.name in workspace.dataset_names() else []
    if not options.yes:
        if options.json or not sys.stdin.isatty():
            raise UsageError(f"Removing {options.name!r} needs a yes: call it with --yes.")
        workspace.dataset(options.name)
        for line in _run_lines(own):
            print(line, file=sys.stderr)
        runs = f", and its {_counted(own)}" if own and options.with_runs else ""
        question = f"Remove the data set {options.name!r}, its decoded pixels and labels{runs}? The originals stay."
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            output.result({"removed": None}, ["Nothing was removed."])
            return 0
    if options.with_runs:
        remove_with_runs(workspace, options.name)
    else:
        workspace.remove(options.name)
    gone, left = (own, []) if options.with_runs else ([], own)
    removed = f"{options.name} and its {_counted(gone)}" if gone else options.name
    lines = [f"Removed {removed}. The originals are untouched."]
    if left:
        lines += [f"Its {_counted(left)} stayed, and cannot be opened without it: {', '.join(left)}."]
        where = printable(str(workspace.root / "runs"))
        lines += [f"Delete them on the Runs page, or their folders in {where}; --with-runs would have done both."]
    output.result({"removed": options.name, "runs_removed": gone, "runs_left": left}, lines)
    return 0


def _run_lines(runs: list[str]) -> list[str]:
    """What runs a data set has, before anybody says yes."""
    return [f"It has {_counted(runs)}: {', '.join(runs)}."] if runs else []


def _counted(runs: list[str]) -> str:
    return f"{len(runs):,} run{'' if len(runs) == 1 else 's'}"


# ---- what is shown


def _command(workspace: Workspace, *words: str) -> str:
    """A command that can be copied into a shell and does what it should there."""
    elsewhere = () if workspace.root == default_workspace().absolute() else ("--workspace", str(workspace.root))
    return printable(shlex.join(["crlc", *words, *elsewhere]))


def _content(dataset: ImageDataset, summary: DatasetSummary) -> dict[str, Any]:
    return {"source": printable(dataset.info.location), "kind": dataset.info.source_kind, **asdict(summary)}


def _report_content(report: ImportReport) -> dict[str, Any]:
    return {
        **asdict(report.fates),
        "unmatched_classes": report.unmatched_classes,
        "seconds": round(report.seconds, 3),
    }


def _state(summary: DatasetSummary) -> str:
    return "ready" if summary.complete else "import interrupted"


def _place(dataset: ImageDataset) -> str:
    return "built in" if dataset.info.source_kind == "builtin" else printable(dataset.info.location)


def _how_to_begin(workspace: Workspace) -> list[str]:
    return [f"No data sets in {workspace.root} yet. Begin with: crlc import FOLDER, or: crlc import digits"]


def _import_lines(dataset: ImageDataset, report: ImportReport, summary: DatasetSummary) -> list[str]:
    fates = report.fates
    lines = [f"{dataset.name}: {report.readable:,} images at {_sizes(report.sizes)} in {duration(report.seconds)}."]
    if summary.version > 1:
        lines.append(
            f"Since the last import: {fates.new:,} new, {fates.changed:,} changed, {fates.renamed:,} renamed, "
            f"{fates.removed:,} removed."
        )
    lines += _quality_lines(dataset, summary)
    if report.unmatched_classes:
        lines.append(
            f"{report.unmatched_classes:,} lines of {dataset.info.options.classes} name no image of the data set."
        )
    return lines


def _dataset_lines(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary) -> list[str]:
    stored = f"{_sizes(summary.sizes)} ({megabytes(summary.pixel_bytes)})"
    lines = [f"{dataset.name}: {summary.readable:,} images at {stored}, from {_place(dataset)}."]
    if not summary.complete:
        lines.append(
            f"The import was interrupted, {summary.pending:,} images are not decoded yet. Carry on with: "
            + _command(workspace, "import", dataset.info.location, "--name", dataset.name)
        )
    lines += _quality_lines(dataset, summary)
    for reason, count in list(summary.unreadable.items())[:_SHOWN_REASONS]:
        lines.append(f"  {count:,} x {reason}")
    if summary.splits:
        lines.append("Splits: " + ", ".join(f"{name} {count:,}" for name, count in summary.splits.items()))
    for name, count in list(summary.classes.items())[:_SHOWN_CLASSES]:
        lines.append(f"  {count:>8,}  {name}")
    if len(summary.classes) > _SHOWN_CLASSES:
        lines.append(f"  ... and {len(summary.classes) - _SHOWN_CLASSES} more classes")
    return lines


def _quality_lines(dataset: ImageDataset, summary: DatasetSummary) -> list[str]:
    lines = [f"Classes: {len(summary.classes)} known." if summary.classes else "Classes: none known."]
    unreadable = sum(summary.unreadable.values())
    if unreadable:
        lines.append(
            f"{unreadable:,} files could not be read; the list: crlc dataset {dataset.name} --problems FILE.csv"
        )
    if summary.duplicates:
        lines.append(f"{summary.duplicates:,} images are exact copies of another.")
    return lines


def _sizes(sizes: tuple[int, ...]) -> str:
    return " and ".join(f"{size} px" for size in sizes) or "no size yet"
