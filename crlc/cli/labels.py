"""Command `label`: label and exclude images of a dataset, undo and redo."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.options import add_common_arguments, add_dataset_argument
from crlc.cli.output import Output
from crlc.cli.tables import format_table
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, UsageError
from crlc.paths import to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.annotations.store import AnnotationStore, HistoryEntry

_MAX_LISTED_IMAGES = 50
_Action = Callable[[argparse.Namespace, ImageDataset, "AnnotationStore", Output], None]


def add_label_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `label`."""
    add_dataset_argument(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        add_common_arguments(subparser, below=True)
        return subparser

    def images(subparser: argparse.ArgumentParser) -> None:
        subparser.add_argument("images", metavar="IMAGE", nargs="+", help="path or id of an image")

    chosen = action("set", "Label images.")
    chosen.add_argument("name", metavar="NAME", help="the label")
    images(chosen)
    images(action("clear", "Remove the labels of images."))
    images(action("exclude", "Exclude images from training and export."))
    images(action("include", "Include excluded images again."))
    listed = action("list", "Count the labels, or list the images of one label.")
    listed.add_argument("name", metavar="NAME", nargs="?", help="label whose images are listed")
    action("import", "Import labels from a CSV file.").add_argument(
        "file", metavar="FILE.csv", type=Path, help="file with the columns path (or id) and label"
    )
    action("export", "Export all labels to a CSV file.").add_argument(
        "file", metavar="FILE.csv", type=Path, help="new file"
    )
    checked = action("check", "Predict each label from the others, and list names and labels with problems.")
    checked.add_argument("--run", metavar="RUN", default="last", help="run whose features and clusters are used")
    action("undo", "Undo the last operation: a label, an exclusion, or an edit of clusters.")
    action("redo", "Redo the operation that was undone last.")


def run_label(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Run one action on the annotations of a dataset."""
    from crlc.annotations.store import AnnotationStore

    dataset = workspace.open_dataset(options.dataset)
    with AnnotationStore(dataset) as annotations:
        _ACTIONS[options.action](options, dataset, annotations, output)
    return 0


def print_entry(entry: HistoryEntry | None, output: Output) -> None:
    """Print the operation that was recorded."""
    title = entry.title if entry else None
    output.print_result({"done": title}, [f"Done: {title}." if title else "Nothing to change."])


def print_undone(entry: HistoryEntry, output: Output) -> None:
    """Print the operation that was undone or redone."""
    word = "undone" if entry.undone else "redone"
    output.print_result({word: entry.title, "run": entry.run}, [f"{word.capitalize()}: {entry.title}."])


def _set_label(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.data.image_lookup import find_image_ids

    print_entry(annotations.label(find_image_ids(dataset, options.images), options.name), output)


def _apply_to_images(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.data.image_lookup import find_image_ids

    ids = find_image_ids(dataset, options.images)
    actions = {"clear": annotations.unlabel, "exclude": annotations.exclude, "include": annotations.include}
    print_entry(actions[options.action](ids), output)


def _print_labels(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    state = annotations.refresh()
    labelled = state.to_label_set()
    counts = labelled.count_by_name()
    stale = annotations.find_stale_labels().tolist()
    content: dict[str, Any] = {
        "dataset": dataset.name,
        "labels": counts,
        "excluded": len(state.get_excluded_ids()),
        "stale": stale,
    }
    lines = format_table(("label", "images"), [[name, f"{count:,}"] for name, count in counts.items()])
    if not counts:
        lines = [f"No labels in {dataset.name} yet. To add one, run: crlc label {dataset.name} set NAME IMAGE"]
    if options.name is not None:
        from crlc.data.image_lookup import read_paths

        if options.name not in counts:
            known = ", ".join(counts) or "none yet"
            raise CrlcError(f"No image of {dataset.name} is labelled '{to_printable(options.name)}'. Labels: {known}.")
        ids = labelled.select_name(options.name).ids
        paths = {number: to_printable(path) for number, path in read_paths(dataset, ids)}
        content["images"] = [{"id": number, "path": path} for number, path in paths.items()]
        lines = [f"{number:>8}  {path}" for number, path in list(paths.items())[:_MAX_LISTED_IMAGES]]
        if len(paths) > _MAX_LISTED_IMAGES:
            lines.append(f"... and {len(paths) - _MAX_LISTED_IMAGES:,} more; use --json or export to list all")
    elif content["excluded"]:
        lines.append(f"Excluded: {content['excluded']:,}.")
    if stale:
        lines.append(f"Labels to review, because the image has changed since: {len(stale):,}.")
    output.print_result(content, lines)


def _import_labels(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.annotations.label_csv import import_label_file

    report = import_label_file(annotations, dataset, options.file)
    lines = [f"Images matched: {report.matched:,}, of which {report.unchanged:,} already had the label."]
    if report.unknown:
        more = ", ..." if report.unknown > len(report.first_unknown) else ""
        lines.append(f"Lines without a matching image: {report.unknown:,} ({', '.join(report.first_unknown)}{more}).")
    if report.blank:
        lines.append(f"Lines without a label: {report.blank:,}.")
    output.print_result(asdict(report), lines)


def _export_labels(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.annotations.label_csv import write_label_file
    from crlc.export.destinations import write_new_text

    count = write_new_text(options.file, partial(write_label_file, dataset, annotations.refresh()))
    file = to_printable(str(options.file))
    output.print_result({"labels": count, "file": file}, [f"Wrote {count:,} labels to {file}."])


def _check_labels(
    options: argparse.Namespace, dataset: ImageDataset, annotations: AnnotationStore, output: Output
) -> None:
    from crlc.data.image_lookup import read_paths
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.check_labels import check_labels

    analysis = RunAnalysis.open(Workspace(options.workspace), options.run)
    if analysis.dataset != dataset:
        raise UsageError(
            f"run={analysis.run.id!r} is a run of {analysis.dataset.name!r}, not of {dataset.name!r}.",
            parameters=("run",),
        )
    report = check_labels(analysis, annotations.load_usable_labels())
    doubtful = [{"id": number, "path": to_printable(path)} for number, path in read_paths(dataset, report.doubtful_ids)]
    names = [asdict(check) | {"next_images": check.next_images.tolist()} for check in report.names]
    lines = [
        f"Labels predicted correctly: {report.correct:,} of {report.labels:,}, "
        f"by the clusters alone: {report.correct_before:,}.",
        *format_table(
            ("name", "labels", "predicted", "by clusters", "often taken for", ""),
            [
                [
                    to_printable(check.name),
                    f"{check.labels:,}",
                    f"{check.correct:,}",
                    f"{check.correct_before:,}",
                    to_printable(check.confused_with or ""),
                    "learnt badly" if check.is_learnt_badly else "",
                ]
                for check in report.names
            ],
        ),
        *(f"Label to review: {one['path']}" for one in doubtful[:_MAX_LISTED_IMAGES]),
    ]
    output.print_result(
        {
            "run": analysis.run.id,
            "labels": report.labels,
            "correct": report.correct,
            "correct_before": report.correct_before,
            "names": names,
            "doubtful": doubtful,
        },
        lines,
    )


_ACTIONS: dict[str, _Action] = {
    "set": _set_label,
    "clear": _apply_to_images,
    "exclude": _apply_to_images,
    "include": _apply_to_images,
    "list": _print_labels,
    "import": _import_labels,
    "export": _export_labels,
    "check": _check_labels,
    "undo": lambda _, __, annotations, output: print_undone(annotations.undo(), output),
    "redo": lambda _, __, annotations, output: print_undone(annotations.redo(), output),
}
