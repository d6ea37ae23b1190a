"""Import and export of labels as CSV files with a path (or id) column and a label column."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from crlc.annotations.label_set import LabelSet
from crlc.annotations.operations import Label, OperationGroup, normalize_name
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import ImageLookup, read_paths
from crlc.data.sources.table import PATH_COLUMNS, decode_windows_text, find_column, get_cell, read_csv_lines
from crlc.errors import CrlcError, UsageError
from crlc.formatting import format_count, format_list
from crlc.paths import escape_formula, to_printable, unescape_formula

ID_COLUMNS = ("id", "image_id")
LABEL_COLUMNS = ("label", "name")
_LISTED_IN_MESSAGES = 5


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Image with two different labels in a file."""

    image: str
    """Path or id as written in the file."""

    labels: tuple[str, str]
    lines: tuple[int, int]

    def __str__(self) -> str:
        """Return both labels with their lines."""
        (first, second), (one, other) = self.labels, self.lines
        return f"{self.image} is {first!r} in line {one} and {second!r} in line {other}"


@dataclass(frozen=True)
class LabelFileContent:
    """Labels of a CSV file and the lines that cannot be used."""

    labels: LabelSet

    contradictions: tuple[Contradiction, ...]
    unknown: tuple[str, ...]
    """Paths or ids, as written, that match no readable image of the dataset."""

    blank: int
    """Number of lines without a label."""


@dataclass(frozen=True)
class LabelImportReport:
    """Number of labels that an import changed and skipped."""

    matched: int
    """Images of the dataset with a label in the file."""

    changed: int
    unchanged: int
    """Images that had the label already."""

    unknown: int
    first_unknown: tuple[str, ...]
    blank: int


def read_label_file(file: Path, dataset: ImageDataset) -> LabelFileContent:
    """Read a label file and look up its images; nothing is changed.

    Args:
        file: CSV file; relative paths in it may also be relative to its folder.
        dataset: dataset of the images.

    Raises:
        SourceError: the file cannot be opened, or is not a CSV file.
        CrlcError: a column is missing, or a label is not allowed.
    """
    labels: dict[int, tuple[str, int]] = {}
    contradictions: list[Contradiction] = []
    unknown: list[str] = []
    blank = 0
    with ImageLookup(dataset, file.parent) as lookup:
        for line, image, name, by_path in _read_lines(file):
            if not name:
                blank += 1
                continue
            number = lookup.find_by_path(image) if by_path else lookup.find_by_id(image.strip())
            if number is None:
                unknown.append(to_printable(image))
                continue
            known, known_line = labels.setdefault(number, (name, line))
            if known != name:
                contradictions.append(Contradiction(to_printable(image), (known, name), (known_line, line)))
    label_set = LabelSet.from_mapping({number: name for number, (name, _) in labels.items()})
    return LabelFileContent(label_set, tuple(contradictions), tuple(unknown), blank)


def read_valid_label_file(file: Path, dataset: ImageDataset) -> LabelFileContent:
    """Read a label file that has at least one label and no contradictions.

    Args:
        file: CSV file.
        dataset: dataset of the images.

    Raises:
        CrlcError: the file has no label for an image of the dataset, or different labels for one image.
    """
    table = read_label_file(file, dataset)
    if table.contradictions:
        raise CrlcError(
            f"{file} gives {format_count(len(table.contradictions), 'image')} two labels: "
            f"{format_list([*map(str, table.contradictions)], _LISTED_IN_MESSAGES, '; ')}. "
            "Nothing was changed.",
            advice="Keep one line for each image.",
        )
    if not len(table.labels):
        reason = (
            f"no image matches {format_list(table.unknown, _LISTED_IN_MESSAGES)}"
            if table.unknown
            else "no line has a label"
        )
        raise CrlcError(
            f"{file} has no label for an image of {dataset.name}: {reason}.",
            advice=f"Use absolute paths, or paths relative to {to_printable(dataset.info.location)}.",
        )
    return table


def import_label_file(annotations: AnnotationStore, dataset: ImageDataset, file: Path) -> LabelImportReport:
    """Apply the labels of a CSV file in one operation, so that one undo reverts the import.

    Args:
        annotations: store that receives the labels.
        dataset: dataset of the images.
        file: CSV file.

    Raises:
        CrlcError: the file is not valid (see `read_valid_label_file`); nothing was changed.
    """
    table = read_valid_label_file(file, dataset)
    ids, contents = table.labels.ids, annotations.require_images(table.labels.ids)
    title = f"import the labels of {format_count(len(ids), 'image')} from {to_printable(file.name)}"
    changed = 0

    def operation(state: AnnotationState) -> OperationGroup | None:
        nonlocal changed
        members = []
        for code, name in enumerate(table.labels.names):
            chosen = np.flatnonzero(table.labels.codes == code)
            new = chosen[~state.has_same_label(ids[chosen], name, contents[chosen])]
            if len(new):
                members.append(Label(tuple(ids[new].tolist()), name, tuple(contents[new].tolist())))
        changed = sum(len(member.ids) for member in members)
        return OperationGroup(tuple(members), title) if members else None

    annotations.record(operation)
    return LabelImportReport(
        len(ids), changed, len(ids) - changed, len(table.unknown), table.unknown[:_LISTED_IN_MESSAGES], table.blank
    )


def write_label_file(dataset: ImageDataset, annotations: AnnotationState, stream: TextIO) -> int:
    """Write all labels as a CSV file that `import_label_file` reads, ordered by image id.

    Args:
        dataset: dataset of the images.
        annotations: its annotations.
        stream: text file, opened with `newline=""`.

    Returns:
        The number of labels written.
    """
    labels = annotations.to_label_set()
    names = labels.to_mapping()
    writer = csv.writer(stream)
    writer.writerow(("path", "label"))
    count = 0
    for number, path in read_paths(dataset, labels.ids):
        writer.writerow((escape_formula(to_printable(path)), escape_formula(names[number])))
        count += 1
    return count


def _read_lines(file: Path) -> Iterator[tuple[int, str, str, bool]]:
    """Yield line number, image, label, and whether the image is a path."""
    lines = read_csv_lines(str(file))
    written = next(lines, [])
    header = [title.strip().lower() for title in written]
    path_at, id_at, label_at = (find_column(header, names) for names in (PATH_COLUMNS, ID_COLUMNS, LABEL_COLUMNS))
    # A path column is preferred, because ids are valid in one dataset only.
    image_at = id_at if path_at is None else path_at
    if image_at is None or label_at is None:
        wanted = [
            *([] if image_at is not None else [f"image column ({', '.join((*PATH_COLUMNS, *ID_COLUMNS))})"]),
            *([] if label_at is not None else [f"label column ({', '.join(LABEL_COLUMNS)})"]),
        ]
        found = ", ".join(to_printable(title) for title in written[:12]) or "nothing"
        raise CrlcError(f"{file} has no {' and no '.join(wanted)}. Its first line is: {found}.")
    for line, cells in enumerate(lines, start=2):
        if not get_cell(cells, image_at):
            continue
        name = unescape_formula(decode_windows_text(get_cell(cells, label_at)))
        try:
            yield line, cells[image_at], normalize_name(name, "label") if name else "", path_at is not None
        except UsageError as error:
            raise CrlcError(f"{file}, line {line}: {error} Nothing was changed.") from None
