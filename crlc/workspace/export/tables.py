"""The assignments of a run as CSV and Parquet, and back again.

In both, a path or class is in printable form (`crlc.names`), as it may hold any byte. In CSV, text that a
spreadsheet would take for a formula begins with an apostrophe. Cells without a value are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from crlc.data.sources.table import csv_lines
from crlc.errors import CrlcError, SourceError, UsageError
from crlc.files import write_new_file
from crlc.names import (
    FORMULA_STARTS,
    from_printable,
    from_spreadsheet_safe,
    path_from_bytes,
    printable,
    spreadsheet_safe,
)
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.workspace.export.places import require_new_file, trouble_explained
from crlc.workspace.export.rows import NONE, Chunk, Repeated, RunExport

if TYPE_CHECKING:
    import pyarrow

MODEL, PERSON, NOT_ASSIGNED = "model", "person", "not assigned"
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    """One image of an exported table; the fields are its columns."""

    path: str
    """Inside the source of the data set, with every byte that it has."""

    cluster: int | None
    """As people edited it; none where the source is `not assigned`, or a label alone."""

    cluster_name: str | None
    confidence: float | None
    """How sure the run was of the cluster that it chose itself."""

    second_cluster: int | None
    """The most probable of the other clusters."""

    second_probability: float | None
    label: str | None
    source: str
    """`model`; `person` for an image that was labelled or moved by hand; `not assigned` for what came later."""

    excluded: bool
    map_x: float | None
    map_y: float | None
    class_: str | None
    """What came with the data; the column is named `class`."""

    run: str
    image_id: int


COLUMNS = tuple(field.name.rstrip("_") for field in fields(AssignmentRow))
_ARROW_TYPES = {
    "cluster": "int32",
    "confidence": "float32",
    "second_cluster": "int32",
    "second_probability": "float32",
    "excluded": "bool_",
    "map_x": "float32",
    "map_y": "float32",
    "image_id": "int64",
}
"""All others are text."""
_ODD = ("path", "class")


def _one_of(characters: Iterable[str]) -> str:
    return "[" + "".join(f"\\x{ord(character):02x}" for character in characters) + "]"


_PLAIN_CHARACTERS = [chr(code) for code in range(0x20, 0x7F) if chr(code) != "\\"]
_PLAIN = f"^{_one_of(_PLAIN_CHARACTERS)}*$"
"""Paths that are printable as they are: of those that are ASCII, all."""
_PLAIN_AND_NO_FORMULA = f"^{_one_of(c for c in _PLAIN_CHARACTERS if c not in FORMULA_STARTS)}{_PLAIN[1:]}"


@dataclass(frozen=True)
class TableReport:
    """What was written."""

    images: int
    not_assigned: int


def write_table(
    export: RunExport, file: Path, report: ProgressCallback = no_progress, *, excluded: bool = True
) -> TableReport:
    """Write a .csv or .parquet file, a chunk at a time; it is there whole or not at all.

    Args:
        export: the run.
        file: not there yet; its ending says which kind.
        report: told how far it is.
        excluded: false to leave images out that people excluded; by default a column says which they are.

    Raises:
        UsageError: it has another ending, or exists already.
        CrlcError: it cannot be written.
    """
    writers: dict[str, Callable[..., TableReport]] = {".csv": _write_csv, ".parquet": _write_parquet}
    if file.suffix.lower() not in writers:
        raise UsageError(f"{printable(str(file))} is no kind of table that can be written: choose .csv or .parquet.")
    require_new_file(file)
    result: list[TableReport] = []
    with trouble_explained(file):
        write = partial(writers[file.suffix.lower()], export, report, excluded)
        write_new_file(file, lambda stream: result.append(write(stream)))
    return result[0]


def read_assignments(file: Path) -> Iterator[AssignmentRow]:
    """The rows of a table that `write_table` wrote; a CSV file may have been saved by a spreadsheet since.

    Raises:
        SourceError: it cannot be opened, or is damaged.
        CrlcError: it lacks a column, or a cell holds what cannot be there.
    """
    if file.suffix.lower() == ".parquet":
        yield from _read_parquet(file)
        return
    lines = csv_lines(str(file))
    header = [title.strip() for title in next(lines, [])]
    _require_columns(file, header)
    at = [header.index(name) for name in COLUMNS]
    for line, cells in enumerate(lines, start=2):
        if not any(cells):
            continue
        try:
            yield AssignmentRow(*(_parsed(name, cells[place]) for name, place in zip(COLUMNS, at, strict=True)))
        except (ValueError, IndexError, KeyError) as error:
            raise CrlcError(f"{printable(str(file))}, line {line} is no row of an exported table: {error}.") from None


# ---- writing


def _write_csv(export: RunExport, report: ProgressCallback, excluded: bool, stream: IO[bytes]) -> TableReport:
    from pyarrow import csv

    stream.write((",".join(COLUMNS) + "\n").encode())
    options = csv.WriteOptions(include_header=False, batch_size=4096)
    with csv.CSVWriter(stream, _schema(), write_options=options) as writer:
        return _write_batches(export, report, excluded, writer.write_batch, for_spreadsheets=True)


def _write_parquet(export: RunExport, report: ProgressCallback, excluded: bool, stream: IO[bytes]) -> TableReport:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, _schema()) as writer:
        return _write_batches(export, report, excluded, writer.write_batch)


def _write_batches(
    export: RunExport,
    report: ProgressCallback,
    excluded: bool,
    write: Callable[[pyarrow.RecordBatch], None],
    *,
    for_spreadsheets: bool = False,
) -> TableReport:
    import pyarrow as pa

    stage = Stage("Writing", export.count(), report)
    images = missing = 0
    for chunk in export.chunks():
        kept = np.ones(len(chunk.ids), np.bool_) if excluded else ~chunk.excluded
        batch = record_batch(export, chunk, for_spreadsheets=for_spreadsheets)
        write(batch if excluded else batch.filter(pa.array(kept)))
        images += int(kept.sum())
        missing += int((~chunk.assigned & kept).sum())
        stage.advance(len(chunk.ids))
    stage.finish()
    return TableReport(images, missing)


def record_batch(export: RunExport, chunk: Chunk, *, for_spreadsheets: bool = False) -> pyarrow.RecordBatch:
    """A chunk as Arrow has it.

    Args:
        export: whose.
        chunk: of it.
        for_spreadsheets: no text begins like a formula.
    """
    import pyarrow as pa

    change = spreadsheet_safe if for_spreadsheets else str
    numbers = sorted(export.names)
    named = np.isin(chunk.cluster, numbers)
    name = np.where(named, np.searchsorted(numbers, chunk.cluster), NONE)
    sources = np.where(chunk.by_person, 1, np.where(chunk.assigned, 0, 2))
    columns = {
        "path": _paths(chunk, for_spreadsheets=for_spreadsheets),
        "cluster": pa.array(chunk.cluster, mask=~chunk.assigned),
        "cluster_name": _taken(Repeated(name, [export.names[number] for number in numbers]), change),
        "confidence": _number(chunk.confidence),
        "second_cluster": pa.array(chunk.second, mask=chunk.second == NONE),
        "second_probability": _number(chunk.second_probability),
        "label": _taken(chunk.label, change),
        "source": _taken(Repeated(sources, (MODEL, PERSON, NOT_ASSIGNED))),
        "excluded": pa.array(chunk.excluded),
        "map_x": _number(chunk.places[:, 0]),
        "map_y": _number(chunk.places[:, 1]),
        "class": _taken(chunk.class_, lambda name: change(printable(name))),
        "run": pa.repeat(export.run, len(chunk.ids)),
        "image_id": pa.array(chunk.ids),
    }
    return pa.record_batch([columns[title] for title in COLUMNS], schema=_schema())


def _number(values: NDArray[np.float32]) -> pyarrow.Array:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values), mask=np.isnan(values))


def _taken(texts: Repeated, change: Callable[[str], str] = str) -> pyarrow.Array:
    """Texts that repeat: each is changed once."""
    import pyarrow as pa

    used, place = np.unique(texts.numbers, return_inverse=True)
    names = [None if number == NONE else change(texts.names[number]) for number in used.tolist()]
    return pa.array(names, pa.string()).take(pa.array(place))


def _paths(chunk: Chunk, *, for_spreadsheets: bool) -> pyarrow.Array:
    """Paths in printable form. The usual ones are that already, and only the others are looked at one by one."""
    import pyarrow as pa
    from pyarrow import compute

    usual = _PLAIN_AND_NO_FORMULA if for_spreadsheets else _PLAIN
    odd = compute.invert(compute.match_substring_regex(chunk.stored_paths, usual))
    paths = [printable(path_from_bytes(path)) for path in chunk.stored_paths.filter(odd).to_pylist()]
    texts = [(spreadsheet_safe(path) if for_spreadsheets else path).encode() for path in paths]
    mended = compute.replace_with_mask(chunk.stored_paths, odd, pa.array(texts, pa.large_binary()))
    return mended.cast(pa.string())


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema([(name, getattr(pa, _ARROW_TYPES.get(name, "string"))()) for name in COLUMNS])


# ---- reading


def _read_parquet(file: Path) -> Iterator[AssignmentRow]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file) as opened:
            _require_columns(file, opened.schema_arrow.names)
            for batch in opened.iter_batches(columns=list(COLUMNS)):
                for row in batch.to_pylist():
                    values = {name: from_printable(row[name]) if row[name] else row[name] for name in _ODD}
                    yield AssignmentRow(**{_field(name): values.get(name, row[name]) for name in COLUMNS})
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{printable(str(file))} cannot be read as a table: {error}.") from None


def _field(column: str) -> str:
    return "class_" if column == "class" else column


def _require_columns(file: Path, there: list[str]) -> None:
    missing = [name for name in COLUMNS if name not in there]
    if missing:
        raise CrlcError(f"{printable(str(file))} is no exported table: it lacks the columns {', '.join(missing)}.")


_KINDS = {
    name.rstrip("_"): next(kind for kind in (*get_args(hint), hint) if kind is not type(None))
    for name, hint in get_type_hints(AssignmentRow).items()
}


def _parsed(name: str, cell: str) -> Any:
    """The value of a cell, by the type of its column."""
    if _KINDS[name] is str:
        text = from_spreadsheet_safe(cell)
        return (from_printable(text) if name in _ODD else text) or None
    if not cell:
        return None
    if _KINDS[name] is bool:
        return _TRUTHS[cell.lower()]
    return int(cell) if _KINDS[name] is int else float(np.float32(cell))
