"""CSV files that name images: as a source of their own, or to give classes to one."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crlc.data.sources.base import SPLITS, Entry, UnreadableError, split_named
from crlc.data.sources.folder import read_file, stamp_of, why_unreadable
from crlc.errors import SourceError
from crlc.names import from_printable, from_spreadsheet_safe, printable

PATH_COLUMNS = ("path", "image", "file", "filename", "filepath", "file_name", "image_path")
_CLASS_COLUMNS = ("class", "label", "category", "target", "class_name")
_SPLIT_COLUMNS = ("split", "subset", "part")
_SAMPLE_CHARACTERS = 1 << 16
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How what Excel calls Unicode text begins."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table of images."""

    line: int
    path: str
    class_name: str | None
    split: str | None


@dataclass(frozen=True)
class ImageTable:
    """A CSV file with a column of paths and perhaps one of classes and one of splits."""

    location: str

    def __post_init__(self) -> None:
        """Read the header.

        Raises:
            SourceError: there is no such file, it is not text, or no column holds paths.
        """
        if not any(self.rows()):
            raise SourceError(f"{self.location} names no image: it has a header and nothing below it.")

    def rows(self) -> Iterator[Row]:
        """Read the table line by line; empty lines are passed over."""
        yield from self._parse(csv_lines(self.location))

    def require_classes(self) -> None:
        """Check that the table has a column of classes.

        Raises:
            SourceError: it has none.
        """
        if not any(row.class_name for row in self.rows()):
            raise SourceError(
                f"{self.location} gives no image a class: it needs a column named one of {', '.join(_CLASS_COLUMNS)}."
            )

    def _parse(self, reader: Iterator[list[str]]) -> Iterator[Row]:
        header = [name.strip().lower() for name in next(reader, [])]
        path_at = column(header, PATH_COLUMNS)
        if path_at is None:
            found = ", ".join(printable(name) for name in header[:12]) or "nothing"
            raise SourceError(
                f"{self.location} has no column of paths. Its first line holds: {found}. "
                f"Name the column one of {', '.join(PATH_COLUMNS)}."
            )
        class_at, split_at = column(header, _CLASS_COLUMNS), column(header, _SPLIT_COLUMNS)
        for line, cells in enumerate(reader, start=2):
            path = cell(cells, path_at)
            if path:
                class_name = as_windows_text(cell(cells, class_at)) or None
                yield Row(line, path, class_name, self._split(cell(cells, split_at), line))

    def _split(self, text: str, line: int) -> str | None:
        if not text:
            return None
        split = split_named(text)
        if split is None:
            raise SourceError(f"{self.location}, line {line}: split {text!r} is not one of {', '.join(SPLITS)}.")
        return split


class CsvSource:
    """The images that a CSV file names; relative paths start from the CSV's own folder."""

    kind = "csv"
    has_folders = False

    def __init__(self, location: str) -> None:
        """Check that the file names images."""
        self.location = location
        self._table = ImageTable(location)

    def entries(self) -> Iterator[Entry]:
        """One entry for each line; a file that is not there is listed with that problem."""
        for row in self._table.rows():
            path = next((text for text in spellings(row.path) if os.path.exists(self.original(text))), row.path)
            try:
                status = os.stat(self.original(path))
                yield Entry(path, status.st_size, stamp_of(status), row.split, row.class_name)
            except (OSError, ValueError) as error:
                reason = why_unreadable(error) if isinstance(error, OSError) else "not a possible file name"
                yield Entry(path, 0, "", row.split, row.class_name, problem=f"{reason} (line {row.line} of the CSV)")

    def read(self, path: str) -> bytes:
        """The content of one named file."""
        try:
            return read_file(self.original(path))
        except ValueError:
            raise UnreadableError("not a possible file name") from None

    def original(self, path: str) -> Path:
        """Where the file lies on this computer."""
        return Path(self.location).parent / path


def csv_lines(location: str) -> Iterator[list[str]]:
    """The lines of a CSV file, split into cells at whatever its first line is split by.

    Raises:
        SourceError: it cannot be opened, or is no CSV file.
    """
    try:
        with open(location, "rb") as stream:
            is_wide = stream.read(2) in _WIDE
        encoding, errors = ("utf-16", "replace") if is_wide else ("utf-8-sig", "surrogateescape")
        with open(location, newline="", encoding=encoding, errors=errors) as stream:
            delimiter = max(",;\t", key=stream.readline(_SAMPLE_CHARACTERS).count)
            stream.seek(0)
            yield from csv.reader(stream, delimiter=delimiter)
    except OSError as error:
        raise SourceError(f"{location} cannot be opened: {why_unreadable(error)}.") from None
    except csv.Error as error:
        raise SourceError(f"{location} is not a readable CSV file: {error}.") from None


def column(header: list[str], names: tuple[str, ...]) -> int | None:
    """Where the first of some names stands in a header."""
    return next((header.index(name) for name in names if name in header), None)


def cell(cells: list[str], at: int | None) -> str:
    """One cell without blanks around it; empty where the line is too short."""
    return cells[at].strip() if at is not None and at < len(cells) else ""


def as_windows_text(text: str) -> str:
    """Text of a CSV that is not UTF-8, read as spreadsheets on Windows write it; UTF-8 stays as it is."""
    if text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def spellings(path: str) -> tuple[str, ...]:
    """The readings of a path in a CSV: as it stands, as our own exports escape odd names, as Windows writes."""
    return path, from_printable(from_spreadsheet_safe(path)), as_windows_text(path)
