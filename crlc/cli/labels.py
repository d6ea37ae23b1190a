"""`crlc label`: what people say about the images of a data set, and how it is taken back."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.options import common_options
from crlc.cli.output import Output, table
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.names import printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.workspace.annotations import Annotations, Entry

_SHOWN_IMAGES = 50
_Action = Callable[[argparse.Namespace, ImageDataset, "Annotations", Output], None]


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `label`."""
    parser.add_argument("dataset", metavar="DATASET")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        common_options(subparser, below=True)
        return subparser

    def images(subparser: argparse.ArgumentParser) -> None:
        subparser.add_argument("images", metavar="IMAGE", nargs="+", help="its path or id")

    chosen = action("set", "Give images a label.")
    chosen.add_argument("name", metavar="NAME")
    images(chosen)
    images(action("clear", "Take the labels of images away."))
    images(action("exclude", "Leave images out of what is learned and exported."))
    images(action("include", "Take excluded images in again."))
    listed = action("list", "Count the labels, or list the images of one.")
    listed.add_argument("name", metavar="NAME", nargs="?")
    action("import", "Take labels from a CSV file with a column of paths and one of labels.").add_argument(
        "file", metavar="FILE.csv", type=Path
    )
    action("export", "Write all labels to a CSV file.").add_argument("file", metavar="FILE.csv", type=Path)
    action("undo", "Take the last operation back: a label, an exclusion, or an edit of clusters.")
    action("redo", "Do again what was undone last.")


def run_label(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Do one of the actions."""
    from crlc.workspace.annotations import Annotations

    dataset = workspace.dataset(options.dataset)
    with Annotations(dataset) as annotations:
        _ACTIONS[options.action](options, dataset, annotations, output)
    return 0


def told(entry: Entry | None, output: Output) -> None:
    """Say what was done."""
    title = entry.title if entry else None
    output.result({"done": title}, [f"Done: {title}." if title else "Nothing to change: it is so already."])


def undone(entry: Entry, output: Output) -> None:
    """Say what was undone or redone."""
    word = "undone" if entry.undone else "redone"
    output.result({word: entry.title, "run": entry.run}, [f"{word.capitalize()}: {entry.title}."])


def _set(options: argparse.Namespace, dataset: ImageDataset, annotations: Annotations, output: Output) -> None:
    from crlc.workspace.image_lookup import find_images

    told(annotations.label(find_images(dataset, options.images), options.name), output)


def _on_images(options: argparse.Namespace, dataset: ImageDataset, annotations: Annotations, output: Output) -> None:
    from crlc.workspace.image_lookup import find_images

    ids = find_images(dataset, options.images)
    do = {"clear": annotations.unlabel, "exclude": annotations.exclude, "include": annotations.include}
    told(do[options.action](ids), output)


def _list(options: argparse.Namespace, dataset: ImageDataset, annotations: Annotations, output: Output) -> None:
    curation = annotations.refresh()
    labelled = curation.labelled()
    counts = labelled.counts()
    stale = annotations.stale_labels().tolist()
    content: dict[str, Any] = {
        "dataset": dataset.name,
        "labels": counts,
        "excluded": len(curation.excluded()),
        "stale": stale,
    }
    lines = table(("label", "images"), [[name, f"{count:,}"] for name, count in counts.items()])
    if not counts:
        lines = [f"No labels in {dataset.name} yet. Give one with: crlc label {dataset.name} set NAME IMAGE"]
    if options.name is not None:
        from crlc.workspace.image_lookup import paths_of

        if options.name not in counts:
            known = ", ".join(counts) or "none yet"
            raise CrlcError(f"No image of {dataset.name} is labelled '{printable(options.name)}'. Labels: {known}.")
        ids = labelled.ids[labelled.numbers == labelled.names.index(options.name)]
        paths = {number: printable(path) for number, path in paths_of(dataset, ids)}
        content["images"] = [{"id": number, "path": path} for number, path in paths.items()]
        lines = [f"{number:>8}  {path}" for number, path in list(paths.items())[:_SHOWN_IMAGES]]
        if len(paths) > _SHOWN_IMAGES:
            lines.append(f"... and {len(paths) - _SHOWN_IMAGES:,} more; all of them with --json or export")
    elif content["excluded"]:
        lines.append(f"Excluded: {content['excluded']:,}.")
    if stale:
        lines.append(f"Labels about an older content of their file, to be looked at again: {len(stale):,}.")
    output.result(content, lines)


def _import(options: argparse.Namespace, dataset: ImageDataset, annotations: Annotations, output: Output) -> None:
    from crlc.workspace.label_table import import_labels

    report = import_labels(annotations, dataset, options.file)
    lines = [f"Images matched: {report.matched:,}, of which {report.unchanged:,} had their label already."]
    if report.unknown:
        more = ", ..." if report.unknown > len(report.first_unknown) else ""
        lines.append(f"Lines that name no image of it: {report.unknown:,} ({', '.join(report.first_unknown)}{more}).")
    if report.blank:
        lines.append(f"Lines without a label: {report.blank:,}.")
    output.result(asdict(report), lines)


def _export(options: argparse.Namespace, dataset: ImageDataset, annotations: Annotations, output: Output) -> None:
    from crlc.workspace.export.places import write_new_text
    from crlc.workspace.label_table import write_labels

    count = write_new_text(options.file, partial(write_labels, dataset, annotations.refresh()))
    shown = printable(str(options.file))
    output.result({"labels": count, "file": shown}, [f"Wrote {count:,} labels to {shown}."])


_ACTIONS: dict[str, _Action] = {
    "set": _set,
    "clear": _on_images,
    "exclude": _on_images,
    "include": _on_images,
    "list": _list,
    "import": _import,
    "export": _export,
    "undo": lambda _, __, annotations, output: undone(annotations.undo(), output),
    "redo": lambda _, __, annotations, output: undone(annotations.redo(), output),
}
