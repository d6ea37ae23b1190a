"""CSV files that list images: as a source, or with the classes for another source."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crlc.data.placeholders import make_placeholder
from crlc.data.sources.base import SPLITS, SourceEntry, UnreadableError, parse_split
from crlc.data.sources.folder import describe_os_error, make_stamp, read_file
from crlc.errors import SourceError
from crlc.paths import from_printable, to_printable, unescape_formula

PATH_COLUMNS = ("path", "image", "file", "filename", "filepath", "file_name", "image_path")
_CLASS_COLUMNS = ("class", "label", "category", "target", "class_name")
_SPLIT_COLUMNS = ("split", "subset", "part")
_SAMPLE_CHARACTERS = 1 << 16
MAX_FURTHER_COLUMNS = 100
"""Further columns are ignored: more are rather the numbers of a feature vector than properties of an image."""

_MAX_NAME_CHARACTERS = 60
_PLACEHOLDER_STAMP = "missing"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""First bytes of a file that Excel saved as Unicode text."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a CSV file of images."""

    line: int
    path: str
    class_name: str | None
    split: str | None
    cells: tuple[str, ...]
    """Values of the further columns, as in `ImageTable.column_names`."""


@dataclass(frozen=True)
class ImageTable:
    """A CSV file with a column of paths, optional columns of classes and splits, and further columns."""

    location: str

    def __post_init__(self) -> None:
        """Check the header.

        Raises:
            SourceError: the file cannot be read, or has no column of paths.
        """
        if not any(self.read_rows()):
            raise SourceError(f"{self.location} names no image: it has no line below the header.")

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of the further columns, all different; at most `MAX_FURTHER_COLUMNS`."""
        header = next(read_csv_lines(self.location), [])
        return tuple(name_columns([get_cell(header, at) for at in self._find_further_columns(header)]))

    def count_ignored_columns(self) -> int:
        """Return the number of named columns beyond `MAX_FURTHER_COLUMNS`."""
        header = next(read_csv_lines(self.location), [])
        return len(self._find_further_columns(header, None)) - len(self.column_names)

    def read_rows(self) -> Iterator[TableRow]:
        """Yield the lines of the file; empty lines are skipped."""
        yield from self._parse(read_csv_lines(self.location))

    def require_classes(self) -> None:
        """Check that the file has a column of classes.

        Raises:
            SourceError: no line has a class.
        """
        if not any(row.class_name for row in self.read_rows()):
            raise SourceError(
                f"{self.location} has no class for any image.",
                advice=f"Add a column named one of {', '.join(_CLASS_COLUMNS)}.",
            )

    @staticmethod
    def _find_further_columns(header: list[str], limit: int | None = MAX_FURTHER_COLUMNS) -> list[int]:
        """Return the indices of the named columns that are neither path, class nor split."""
        known = [name.strip().lower() for name in header]
        used = {find_column(known, names) for names in (PATH_COLUMNS, _CLASS_COLUMNS, _SPLIT_COLUMNS)}
        return [at for at, name in enumerate(known) if name and at not in used][:limit]

    def _parse(self, reader: Iterator[list[str]]) -> Iterator[TableRow]:
        first_line = next(reader, [])
        further = self._find_further_columns(first_line)
        header = [name.strip().lower() for name in first_line]
        path_at = find_column(header, PATH_COLUMNS)
        if path_at is None:
            found = ", ".join(to_printable(name) for name in header[:12]) or "nothing"
            raise SourceError(
                f"{self.location} has no column of paths. Its first line is: {found}.",
                advice=f"Name the column one of {', '.join(PATH_COLUMNS)}.",
            )
        class_at, split_at = find_column(header, _CLASS_COLUMNS), find_column(header, _SPLIT_COLUMNS)
        for line, cells in enumerate(reader, start=2):
            path = get_cell(cells, path_at)
            if path:
                class_name = decode_windows_text(get_cell(cells, class_at)) or None
                others = tuple(decode_windows_text(get_cell(cells, at)) for at in further)
                yield TableRow(line, path, class_name, self._parse_split(get_cell(cells, split_at), line), others)

    def _parse_split(self, text: str, line: int) -> str | None:
        if not text:
            return None
        split = parse_split(text)
        if split is None:
            raise SourceError(f"{self.location}, line {line}: split {text!r} is not one of {', '.join(SPLITS)}.")
        return split


class CsvSource:
    """The images that a CSV or Parquet file names; relative paths start from the folder of that file."""

    kind = "csv"
    has_folders = False

    def __init__(self, location: str, *, has_placeholders: bool = False) -> None:
        """Check that the file names images.

        Args:
            location: path of the list.
            has_placeholders: whether missing files are listed as images, with a placeholder as content.
        """
        self.location, self._has_placeholders = location, has_placeholders
        self._table = ImageTable(location)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the further columns of the list."""
        return self._table.column_names

    def count_ignored_columns(self) -> int:
        """Return the number of columns that are not imported because there are too many."""
        return self._table.count_ignored_columns()

    def list_entries(self) -> Iterator[SourceEntry]:
        """Yield one entry per line; a missing file is listed with its problem, or as a placeholder."""
        for row in self._table.read_rows():
            path = next((text for text in list_spellings(row.path) if os.path.exists(self.original(text))), row.path)
            try:
                status = os.stat(self.original(path))
                yield SourceEntry(path, status.st_size, make_stamp(status), row.split, row.class_name, cells=row.cells)
            except (OSError, ValueError) as error:
                if self._has_placeholders:
                    yield SourceEntry(path, 0, _PLACEHOLDER_STAMP, row.split, row.class_name, cells=row.cells)
                    continue
                reason = describe_os_error(error) if isinstance(error, OSError) else "not a possible file name"
                yield SourceEntry(path, 0, "", row.split, row.class_name, reason, row.cells)

    def read(self, path: str) -> bytes:
        """Return the content of one named file, or the placeholder of a missing one."""
        try:
            if self._has_placeholders and not os.path.exists(self.original(path)):
                return make_placeholder(path)
            return read_file(self.original(path))
        except ValueError:
            raise UnreadableError("not a possible file name") from None

    def original(self, path: str) -> Path:
        """Return the path of the file on this computer."""
        return Path(self.location).parent / path


def read_csv_lines(location: str) -> Iterator[list[str]]:
    """Yield the lines of a CSV file as lists of cells. The delimiter is detected from the first line.

    A Parquet file has the same lines: the names of its columns, without those of lists, and its values as text.

    Raises:
        SourceError: the file cannot be opened, or is not a CSV file.
    """
    if location.lower().endswith(".parquet"):
        yield from _read_parquet_lines(location)
        return
    try:
        with open(location, "rb") as stream:
            is_wide = stream.read(2) in _UTF16_MARKS
        encoding, errors = ("utf-16", "replace") if is_wide else ("utf-8-sig", "surrogateescape")
        with open(location, newline="", encoding=encoding, errors=errors) as stream:
            delimiter = max(",;\t", key=stream.readline(_SAMPLE_CHARACTERS).count)
            stream.seek(0)
            yield from csv.reader(stream, delimiter=delimiter)
    except OSError as error:
        raise SourceError(f"{location} cannot be opened: {describe_os_error(error)}.") from None
    except csv.Error as error:
        raise SourceError(f"{location} is not a readable CSV file: {error}.") from None


def _read_parquet_lines(location: str) -> Iterator[list[str]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(location) as file:
            names = [field.name for field in file.schema_arrow if not pa.types.is_nested(field.type)]
            yield names
            for batch in file.iter_batches(columns=names):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    yield ["" if value is None else str(value) for value in values]
    except OSError as error:  # also of pyarrow
        raise SourceError(f"{location} cannot be opened: {error.strerror or error}.") from None
    except ValueError as error:
        raise SourceError(f"{location} is not a readable Parquet file: {str(error).splitlines()[0]}") from None


def name_columns(header: list[str]) -> list[str]:
    """Return names of columns that can be shown and are all different: `size`, `size 2`."""
    names: list[str] = []
    for text in header:
        name = to_printable(decode_windows_text(text))[:_MAX_NAME_CHARACTERS]
        number = 1
        while (numbered := name if number == 1 else f"{name} {number}") in names:
            number += 1
        names.append(numbered)
    return names


def find_column(header: list[str], names: tuple[str, ...]) -> int | None:
    """Return the index of the column with the first matching name, or `None`."""
    return next((header.index(name) for name in names if name in header), None)


def get_cell(cells: list[str], at: int | None) -> str:
    """Return a cell without surrounding spaces; empty if the line is too short."""
    return cells[at].strip() if at is not None and at < len(cells) else ""


def decode_windows_text(text: str) -> str:
    """Decode CSV text that is not UTF-8 as cp1252, which spreadsheets on Windows write; keep UTF-8 as it is."""
    if text.isascii() or not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("cp1252", "replace")


def list_spellings(path: str) -> tuple[str, ...]:
    """Return possible readings of a path in a CSV file: as it is, unescaped, and decoded from cp1252."""
    return path, from_printable(unescape_formula(path)), decode_windows_text(path)
