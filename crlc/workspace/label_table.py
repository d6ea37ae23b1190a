"""Labels from and to CSV files: a column of paths (or ids) and one of labels."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from crlc.data.dataset import ImageDataset
from crlc.data.sources.table import PATH_COLUMNS, as_windows_text, cell, column, csv_lines
from crlc.errors import CrlcError, UsageError
from crlc.names import from_spreadsheet_safe, printable, spreadsheet_safe
from crlc.workspace.annotations import Annotations
from crlc.workspace.curation import Curation
from crlc.workspace.image_lookup import ImageLookup, paths_of
from crlc.workspace.operations import Group, Label, check_name, images

ID_COLUMNS = ("id", "image_id")
LABEL_COLUMNS = ("label", "name")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An image that a table gives two labels."""

    image: str
    """As the table writes it."""

    labels: tuple[str, str]
    lines: tuple[int, int]

    def __str__(self) -> str:
        """One line for people."""
        (first, second), (one, other) = self.labels, self.lines
        return f"{self.image} is {first!r} in line {one} and {second!r} in line {other}"


@dataclass(frozen=True)
class LabelTable:
    """What a CSV file says of the images of a data set."""

    labels: dict[int, str]
    """By image id."""

    contradictions: tuple[Contradiction, ...]
    unknown: tuple[str, ...]
    """What names no readable image of the data set, as it is written."""

    blank: int
    """Lines without a label."""


@dataclass(frozen=True)
class LabelImport:
    """What an import of labels did."""

    matched: int
    """Images named in the file."""

    changed: int
    unchanged: int
    """Images that had the label already."""

    unknown: int
    first_unknown: tuple[str, ...]
    blank: int


def read_labels(file: Path, dataset: ImageDataset) -> LabelTable:
    """Read a table of labels and find its images; nothing is changed.

    Raises:
        SourceError: it cannot be opened, or is no CSV file.
        CrlcError: it lacks a column, or a label cannot be one.
    """
    labels: dict[int, tuple[str, int]] = {}
    contradictions: list[Contradiction] = []
    unknown: list[str] = []
    blank = 0
    with ImageLookup(dataset, file.parent) as lookup:
        for line, image, name, by_path in _lines(file):
            if not name:
                blank += 1
                continue
            number = lookup.by_path(image) if by_path else lookup.by_id(image.strip())
            if number is None:
                unknown.append(printable(image))
                continue
            known, known_line = labels.setdefault(number, (name, line))
            if known != name:
                contradictions.append(Contradiction(printable(image), (known, name), (known_line, line)))
    return LabelTable(
        {number: name for number, (name, _) in labels.items()}, tuple(contradictions), tuple(unknown), blank
    )


def usable_table(file: Path, dataset: ImageDataset) -> LabelTable:
    """Read a table of labels that labels something and does not contradict itself.

    Raises:
        CrlcError: it does not.
    """
    table = read_labels(file, dataset)
    if table.contradictions:
        raise CrlcError(
            f"{file} gives {images(len(table.contradictions))} two labels: "
            f"{_first([str(contradiction) for contradiction in table.contradictions], '; ')}. "
            "Keep one line for each. Nothing was changed."
        )
    if not table.labels:
        reason = f"it names {_first(table.unknown)}" if table.unknown else "no line has a label"
        raise CrlcError(
            f"{file} labels no image of {dataset.name}: {reason}. "
            f"Paths are those inside {printable(dataset.info.location)}, or absolute."
        )
    return table


def import_labels(annotations: Annotations, dataset: ImageDataset, file: Path) -> LabelImport:
    """Give images the labels of a CSV file, as one operation: one undo takes them all back.

    Raises:
        CrlcError: with nothing changed: the file cannot be read, names no image of the data set, or contradicts itself.
    """
    table = usable_table(file, dataset)
    ids = np.array(sorted(table.labels), dtype=np.int64)
    contents = annotations.require_images(ids)
    names = [table.labels[number] for number in ids.tolist()]
    title = f"import the labels of {images(len(ids))} from {printable(file.name)}"
    changed = 0

    def operation(state: Curation) -> Group | None:
        nonlocal changed
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, name in enumerate(names):
            rows[name].append(row)
        members = []
        for name, chosen in rows.items():
            new = np.array(chosen)[~state.is_labelled_so(ids[chosen], name, contents[chosen])]
            if len(new):
                members.append(Label(tuple(ids[new].tolist()), name, tuple(contents[new].tolist())))
        changed = sum(len(member.ids) for member in members)
        return Group(tuple(members), title) if members else None

    annotations.record(operation)
    return LabelImport(len(ids), changed, len(ids) - changed, len(table.unknown), table.unknown[:_NAMED], table.blank)


def write_labels(dataset: ImageDataset, curation: Curation, stream: TextIO) -> int:
    """Write all labels as CSV that `import_labels` reads, in the order of the ids; returns how many."""
    labelled = curation.labelled()
    names = dict(zip(labelled.ids.tolist(), (labelled.names[number] for number in labelled.numbers), strict=True))
    writer = csv.writer(stream)
    writer.writerow(("path", "label"))
    count = 0
    for number, path in paths_of(dataset, labelled.ids):
        writer.writerow((spreadsheet_safe(printable(path)), spreadsheet_safe(names[number])))
        count += 1
    return count


def _lines(file: Path) -> Iterator[tuple[int, str, str, bool]]:
    """Line number, image, label, and whether the image is a path."""
    lines = csv_lines(str(file))
    written = next(lines, [])
    header = [title.strip().lower() for title in written]
    path_at, id_at, label_at = (column(header, names) for names in (PATH_COLUMNS, ID_COLUMNS, LABEL_COLUMNS))
    # Ids are those of one data set only: where there are paths too, these are meant.
    image_at = id_at if path_at is None else path_at
    if image_at is None or label_at is None:
        wanted = [
            *([] if image_at is not None else [f"one of images ({', '.join((*PATH_COLUMNS, *ID_COLUMNS))})"]),
            *([] if label_at is not None else [f"one of labels ({', '.join(LABEL_COLUMNS)})"]),
        ]
        found = ", ".join(printable(title) for title in written[:12]) or "nothing"
        raise CrlcError(f"{file} lacks a column: {' and '.join(wanted)}. Its first line holds: {found}.")
    for line, cells in enumerate(lines, start=2):
        if not cell(cells, image_at):
            continue
        name = from_spreadsheet_safe(as_windows_text(cell(cells, label_at)))
        try:
            yield line, cells[image_at], check_name(name, "label") if name else "", path_at is not None
        except UsageError as error:
            raise CrlcError(f"{file}, line {line}: {error} Nothing was changed.") from None


def _first(texts: tuple[str, ...] | list[str], separator: str = ", ") -> str:
    more = len(texts) - _NAMED
    return separator.join(texts[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
