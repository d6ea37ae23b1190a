"""Commands about datasets: import, datasets, dataset, relink and remove."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from crlc.cli.columns import build_columns_content, format_columns, summarize_columns
from crlc.cli.output import Output
from crlc.cli.tables import format_table
from crlc.data.dataset import DatasetSummary, ImageDataset
from crlc.data.imported_vectors import VectorReport
from crlc.data.importer import ImportReport
from crlc.data.options import ALL, PHOTOGRAPH_SIZE, ImportOptions
from crlc.data.sources.builtin import BUILTIN_DATASETS
from crlc.data.sources.table import MAX_FURTHER_COLUMNS
from crlc.errors import AccessError, CrlcError, UnavailableError, UsageError, explain_system_error
from crlc.formatting import format_bytes, format_count, format_duration
from crlc.paths import to_printable
from crlc.workspace import Workspace, get_default_workspace
from crlc.workspace.removal import find_runs_of_dataset, remove_dataset_with_runs

_MAX_REASONS = 8
_MAX_CLASSES = 20
_RESET_VALUES = {"classes": "auto", "split": ALL, "subset": ALL, "limit": ALL}


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `import`."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="folder, .zip, .npz, .csv or .parquet with a column `path`, or built-in dataset: "
        f"{', '.join(BUILTIN_DATASETS)}",
    )
    parser.add_argument("--name", metavar="NAME", help="name of the dataset (default: the name of the source)")
    parser.add_argument(
        "--size",
        type=int,
        metavar="S",
        help="stored image size in pixels (default: chosen from the images, at most 160)",
    )
    parser.add_argument(
        "--classes",
        metavar="auto|folders|none|FILE.csv",
        help="ground-truth classes: from folder names, from a CSV file, or none "
        "(default: auto, folder names that look like classes)",
    )
    parser.add_argument(
        "--split", metavar="train|test|train+test|unlabelled|all", help="splits to import (default: all)"
    )
    parser.add_argument(
        "--subset",
        metavar="NAME|FILE|all",
        help="class folders to import: imagenet10, imagenet-dogs, imagenet50, imagenet100, imagenet200, "
        "or a text file with one folder name per line",
    )
    parser.add_argument(
        "--limit",
        type=_parse_limit,
        metavar="N|all",
        help="maximum number of images: a reproducible sample, spread over the whole source (default: all)",
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="vectors of the images (.npy, .npz or .parquet), by path or in order, which explore and train then use "
        "instead of a backbone; missing files of a list are imported as points",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="number of decoding processes (default: one per core)")
    parser.add_argument(
        "--no-features",
        action="store_true",
        help="do not compute the features of photographs, which the first map and the first training need",
    )
    parser.add_argument(
        "--downloads", type=Path, metavar="DIR", help="folder of built-in datasets, which are downloaded if missing"
    )


def _parse_limit(text: str) -> int:
    return 0 if text == ALL else int(text)


def run_import(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Import images as a dataset, or update an existing one."""
    settings = ImportOptions(
        options.size,
        options.classes,
        options.split,
        options.subset,
        options.limit,
        placeholders=True if options.vectors else None,
        workers=options.workers,
    )
    dataset, report, vectors = _import(options, settings, workspace, output)
    summary = dataset.summarize()
    if vectors is None and not options.no_features and dataset.get_default_size() == PHOTOGRAPH_SIZE:
        _compute_features(dataset, output)
    content = {
        "dataset": dataset.name,
        "workspace": str(workspace.root),
        **_build_report_content(report),
        **_build_content(dataset, summary),
    }
    inherited = {
        name: value for name, value in dataset.info.options.restrictions.items() if getattr(settings, name) is None
    }
    lines = _format_import(dataset, report, summary)
    if vectors is not None:
        content["vectors"] = {**vars(vectors.vectors), "by_path": vectors.is_by_path, "unmatched": vectors.unmatched}
        lines.append(_format_vectors(vectors))
    lines += [
        f"Unchanged from an earlier import: {name}={value}. To reset it, use --{name} {_RESET_VALUES[name]}."
        for name, value in inherited.items()
    ]
    output.print_result(content, lines)
    return 0


def _import(
    options: argparse.Namespace, settings: ImportOptions, workspace: Workspace, output: Output
) -> tuple[ImageDataset, ImportReport, VectorReport | None]:
    """Import the images, and their vectors if a file of vectors is given."""
    from crlc.services.import_with_vectors import import_with_vectors

    arguments: dict[str, Any] = {"name": options.name, "options": settings, "downloads": options.downloads}
    if options.vectors is not None:
        return import_with_vectors(workspace, options.source, options.vectors, **arguments, report=output.progress)
    return (*workspace.import_dataset(options.source, **arguments, report=output.progress), None)


def _format_vectors(report: VectorReport) -> str:
    vectors = report.vectors
    how = "by path" if report.is_by_path else "in the order of the images"
    text = f"Vectors: {vectors.count:,} of {vectors.dimensions:,} numbers ({vectors.precision}), matched {how}."
    if report.unmatched:
        text += f" {format_count(report.unmatched, 'vector')} of other images ignored."
    return text


def _compute_features(dataset: ImageDataset, output: Output) -> None:
    from crlc.services.features import compute_default_features
    from crlc.training.device import choose_device

    compute_default_features(dataset, device=choose_device("auto"), report=output.progress)


def run_datasets(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List all datasets; a damaged one is listed with its error."""
    rows: list[list[str]] = []
    content: list[dict[str, Any]] = []
    for name in workspace.list_dataset_names():
        try:
            dataset = workspace.open_dataset(name)
            summary = dataset.summarize()
        except (CrlcError, OSError) as failure:
            error = explain_system_error(failure, workspace.root) or failure
            content.append({"name": name, "error": str(error)})
            state = "unreadable" if isinstance(error, (AccessError, UnavailableError)) else "damaged"
            rows.append([name, "-", "-", "-", state, "-"])
            continue
        content.append({"name": name, **_build_content(dataset, summary)})
        sizes = ", ".join(map(str, summary.sizes)) or "-"
        classes = str(len(summary.classes) or "-")
        rows.append([name, f"{summary.readable:,}", classes, sizes, _format_state(summary), _format_source(dataset)])
    lines = (
        format_table(("name", "images", "classes", "px", "state", "source"), rows)
        if rows
        else _format_no_datasets(workspace)
    )
    output.print_result({"workspace": str(workspace.root), "datasets": content}, lines)
    return 0


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `dataset`."""
    parser.add_argument("name", metavar="DATASET", help="name of a dataset")
    parser.add_argument(
        "--problems",
        type=Path,
        metavar="FILE.csv",
        help="write a list of the unreadable files, with the reason for each, to a CSV file",
    )
    parser.add_argument(
        "--duplicates",
        type=Path,
        metavar="FILE.csv",
        help="write a list of the images that have exact copies to a CSV file",
    )


def run_dataset(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the images, classes, problems and columns of a dataset."""
    dataset = workspace.open_dataset(options.name)
    summary = dataset.summarize()
    columns = summarize_columns(dataset)
    lines = [*_format_dataset(workspace, dataset, summary), *format_columns(columns)]
    content = {
        "name": dataset.name,
        **_build_content(dataset, summary),
        "columns": build_columns_content(columns),
    }
    for file, write, nouns in (
        (options.problems, dataset.write_unreadable_csv, ("unreadable file", "unreadable files")),
        (options.duplicates, dataset.write_duplicates_csv, ("image with exact copies", "images with exact copies")),
    ):
        if file is not None:
            count = _write_list(file, write)
            lines.append(f"Wrote {format_count(count, *nouns)} to {to_printable(str(file))}.")
    output.print_result(content, lines)
    return 0


def _write_list(file: Path, write: Callable[[TextIO], int]) -> int:
    """Write a list to a new file, or to a device such as /dev/stdout; return the number of its rows."""
    from crlc.export.destinations import explain_write_errors, require_new_file

    if file.is_file():
        require_new_file(file)
    with explain_write_errors(file), file.open("w", newline="", encoding="utf-8") as stream:
        return write(stream)


def add_relink_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `relink`."""
    parser.add_argument("name", metavar="DATASET", help="name of a dataset")
    parser.add_argument("path", metavar="PATH", help="new location of the original images")


def run_relink(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Set the new location of the original images of a dataset."""
    report = workspace.relink_dataset(options.name, options.path)
    missing = report.expected - report.found
    location = to_printable(report.location)
    lines = [f"{options.name} now uses {location}: {report.found:,} of {format_count(report.expected, 'image')} found."]
    if missing:
        again = format_command(workspace, "import", report.location, "--name", options.name)
        lines.append(f"{format_count(missing, 'image is', 'images are')} missing. To update the dataset, run: {again}")
    output.print_result({"dataset": options.name, **asdict(report), "location": location}, lines)
    return 0


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `remove`."""
    parser.add_argument("name", metavar="DATASET", help="name of a dataset")
    parser.add_argument(
        "--with-runs", action="store_true", help="also delete its runs, which cannot be opened without the dataset"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run_remove(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Delete a dataset, and its runs with --with-runs, after confirmation."""
    own = find_runs_of_dataset(workspace, options.name) if options.name in workspace.list_dataset_names() else []
    if not options.yes:
        if options.json or not sys.stdin.isatty():
            raise UsageError(f"Removing {options.name!r} needs a confirmation: add --yes.")
        workspace.open_dataset(options.name)
        for line in _format_runs(options.name, own):
            print(line, file=sys.stderr)
        runs = f", and its {format_count(len(own), 'run')}" if own and options.with_runs else ""
        question = (
            f"Remove the dataset {options.name!r}, its decoded pixels and labels{runs}? "
            "The original images are not deleted."
        )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            output.print_result({"removed": None}, ["Nothing was removed."])
            return 0
    if options.with_runs:
        remove_dataset_with_runs(workspace, options.name)
    else:
        workspace.remove_dataset(options.name)
    gone, left = (own, []) if options.with_runs else ([], own)
    removed = f"{options.name} and its {format_count(len(gone), 'run')}" if gone else options.name
    lines = [f"Removed {removed}. The original images are unchanged."]
    if left:
        remaining = format_count(len(left), "run of this dataset remains", "runs of this dataset remain")
        lines += [f"{remaining}, but cannot be opened without it: {', '.join(left)}."]
        where = to_printable(str(workspace.root / "runs"))
        lines += [f"Delete runs on the Runs page of the app, or delete their folders in {where}."]
    output.print_result({"removed": options.name, "runs_removed": gone, "runs_left": left}, lines)
    return 0


def _format_runs(name: str, runs: list[str]) -> list[str]:
    """Return a line about the runs of a dataset, shown before the confirmation."""
    return [f"The dataset {name!r} has {format_count(len(runs), 'run')}: {', '.join(runs)}."] if runs else []


# ---- output


def format_command(workspace: Workspace, *words: str) -> str:
    """Return a command that can be copied into a shell."""
    elsewhere = () if workspace.root == get_default_workspace().absolute() else ("--workspace", str(workspace.root))
    return to_printable(shlex.join(["crlc", *words, *elsewhere]))


def _build_content(dataset: ImageDataset, summary: DatasetSummary) -> dict[str, Any]:
    return {"source": to_printable(dataset.info.location), "kind": dataset.info.source_kind, **asdict(summary)}


def _build_report_content(report: ImportReport) -> dict[str, Any]:
    return {
        **asdict(report.changes),
        "unmatched_classes": report.unmatched_classes,
        "ignored_columns": report.ignored_columns,
        "seconds": round(report.seconds, 3),
    }


def _format_state(summary: DatasetSummary) -> str:
    return "ready" if summary.complete else "import interrupted"


def _format_source(dataset: ImageDataset) -> str:
    return "built-in" if dataset.info.source_kind == "builtin" else to_printable(dataset.info.location)


def _format_no_datasets(workspace: Workspace) -> list[str]:
    return [f"No datasets in {workspace.root} yet. To import one, run: crlc import FOLDER, or: crlc import digits"]


def _format_import(dataset: ImageDataset, report: ImportReport, summary: DatasetSummary) -> list[str]:
    changes = report.changes
    lines = [f"{dataset.name}: {_format_images(report.readable, report.sizes)} in {format_duration(report.seconds)}."]
    if summary.version > 1:
        lines.append(
            f"Since the last import: {changes.new:,} new, {changes.changed:,} changed, {changes.renamed:,} renamed, "
            f"{changes.removed:,} removed."
        )
    lines += _format_classes_and_problems(dataset, summary)
    if report.unmatched_classes:
        file = dataset.info.options.classes
        unmatched = format_count(report.unmatched_classes, f"line of {file} has", f"lines of {file} have")
        lines.append(f"{unmatched} no matching image.")
    if report.ignored_columns:
        ignored = format_count(report.ignored_columns, "column of the list was", "columns of the list were")
        lines.append(f"{ignored} not imported: at most {MAX_FURTHER_COLUMNS} are.")
    return lines


def _format_dataset(workspace: Workspace, dataset: ImageDataset, summary: DatasetSummary) -> list[str]:
    stored = f" ({format_bytes(summary.pixel_bytes)})" if summary.sizes else ""
    images = _format_images(summary.readable, summary.sizes)
    lines = [f"{dataset.name}: {images}{stored}, from {_format_source(dataset)}."]
    if not summary.complete:
        lines.append(
            f"The import was interrupted: {format_count(summary.pending, 'image is', 'images are')} not decoded yet. "
            "To continue, run: " + format_command(workspace, "import", dataset.info.location, "--name", dataset.name)
        )
    lines += _format_classes_and_problems(dataset, summary)
    for reason, count in list(summary.unreadable.items())[:_MAX_REASONS]:
        lines.append(f"  {count:,} x {reason}")
    if summary.splits:
        lines.append("Splits: " + ", ".join(f"{name} {count:,}" for name, count in summary.splits.items()))
    for name, count in list(summary.classes.items())[:_MAX_CLASSES]:
        lines.append(f"  {count:>8,}  {name}")
    if len(summary.classes) > _MAX_CLASSES:
        lines.append(f"  ... and {format_count(len(summary.classes) - _MAX_CLASSES, 'more class', 'more classes')}")
    return lines


def _format_classes_and_problems(dataset: ImageDataset, summary: DatasetSummary) -> list[str]:
    lines = [f"Ground-truth classes: {len(summary.classes)}." if summary.classes else "No ground-truth classes."]
    unreadable = sum(summary.unreadable.values())
    if unreadable:
        lines.append(
            f"{format_count(unreadable, 'file')} cannot be read. To write a list with reasons, run: "
            f"crlc dataset {dataset.name} --problems FILE.csv"
        )
    if summary.duplicates:
        copies = format_count(summary.duplicates, "image is an exact copy", "images are exact copies")
        lines.append(f"{copies} of another image.")
    return lines


def _format_images(count: int, sizes: tuple[int, ...]) -> str:
    if not sizes:
        return "no images decoded yet"
    return f"{format_count(count, 'image')} at {' and '.join(f'{size} px' for size in sizes)}"
