"""Export of a run as a CSV or Parquet table with one row per image.

Paths and classes may contain any byte and are written in printable form (`crlc.paths`). In CSV, an apostrophe precedes
text that a spreadsheet would read as a formula. Cells without a value are empty.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.clusters.probabilities import MISSING
from crlc.data.image_lookup import get_original_folder
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import read_content_versions
from crlc.errors import UsageError
from crlc.export.destinations import explain_write_errors, require_new_file
from crlc.export.image_columns import ExportedColumns
from crlc.export.rows import CodedTexts, RowChunk, RunExport
from crlc.files import write_new_file
from crlc.paths import (
    FORMULA_PREFIXES,
    decode_path,
    escape_formula,
    to_printable,
)
from crlc.progress import ProgressCallback, ProgressStage, no_progress

if TYPE_CHECKING:
    import pyarrow

MODEL, PERSON, NOT_ASSIGNED = "model", "person", "not assigned"
"""Values of the column `source`."""


ABSOLUTE_PATH = "absolute_path"

COLUMNS = {
    "path": "Path of the image inside the imported folder.",
    "cluster": "Cluster number after manual edits; empty for images added or changed after the run.",
    "cluster_name": "Name of the cluster; empty if it has none.",
    "confidence": "Probability of the cluster that the model predicted, from 0 to 1.",
    "second_cluster": "Number of the most probable other cluster.",
    "second_probability": "Probability of the second cluster, from 0 to 1.",
    "label": "Manual label; empty if the image has none.",
    "source": "`model`; `person` if the image was labelled or moved manually; `not assigned` without a cluster.",
    "excluded": "True if the image was excluded.",
    "map_x": "Horizontal map coordinate.",
    "map_y": "Vertical map coordinate; larger values are higher up.",
    "class": "Ground-truth class; never used for training.",
    "run": "Id of the run.",
    "image_id": "Id of the image in its dataset.",
}
"""Columns of an exported table, each with a description."""

OPTIONAL_COLUMNS = {ABSOLUTE_PATH: "Path of the original on this computer; empty for images inside an archive."}
"""Columns that a table has on request, each with a description."""

ALL_COLUMNS = (*COLUMNS, *OPTIONAL_COLUMNS)

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
"""Types of the columns that are not text."""


def _build_character_class(characters: Iterable[str]) -> str:
    return "[" + "".join(f"\\x{ord(character):02x}" for character in characters) + "]"


_PLAIN_CHARACTERS = [chr(code) for code in range(0x20, 0x7F) if chr(code) != "\\"]
_PLAIN = f"^{_build_character_class(_PLAIN_CHARACTERS)}*$"
"""Matches paths that are printable without changes: printable ASCII without a backslash."""
_PLAIN_AND_NO_FORMULA = (
    f"^{_build_character_class(c for c in _PLAIN_CHARACTERS if c not in FORMULA_PREFIXES)}{_PLAIN[1:]}"
)


@dataclass(frozen=True)
class TableReport:
    """Number of images in a table."""

    images: int
    not_assigned: int


def write_table(
    export: RunExport,
    file: Path,
    report: ProgressCallback = no_progress,
    *,
    excluded: bool = True,
    absolute_paths: bool = False,
    columns: bool = False,
) -> TableReport:
    """Write a new .csv or .parquet file in chunks. After an error, no file is left behind.

    Args:
        export: the rows of the run.
        file: path of the new file; its suffix determines the format.
        report: receives progress.
        excluded: include excluded images, which are marked in a column.
        absolute_paths: add a column with the absolute paths of the originals.
        columns: add the columns of the dataset, such as dates and those of an imported list.

    Raises:
        UsageError: the suffix is not known, or the file exists.
        CrlcError: the file cannot be written.
    """
    writers: dict[str, Callable[..., TableReport]] = {".csv": _write_csv, ".parquet": _write_parquet}
    if file.suffix.lower() not in writers:
        raise UsageError(f"{to_printable(str(file))} is not allowed: the file must end in .csv or .parquet.")
    require_new_file(file)
    result: list[TableReport] = []
    with explain_write_errors(file):
        options = _TableOptions(excluded, absolute_paths, read_further_columns(export) if columns else None)
        write = partial(writers[file.suffix.lower()], export, report, options)
        write_new_file(file, lambda stream: result.append(write(stream)))
    return result[0]


def read_further_columns(
    export: RunExport, taken: Collection[str] = ALL_COLUMNS, adapt: Callable[[str], str] = str
) -> ExportedColumns:
    """Read the columns of the dataset of an export; the arguments are those of `ExportedColumns.read`."""
    with Manifest(export.dataset.folder) as manifest:
        ids = np.sort(read_content_versions(manifest)[0])
    return ExportedColumns.read(export.dataset, ids, taken, adapt)


# ---- writing


class _TableOptions(NamedTuple):
    excluded: bool
    absolute_paths: bool
    further: ExportedColumns | None


def _write_csv(export: RunExport, report: ProgressCallback, options: _TableOptions, stream: IO[bytes]) -> TableReport:
    from pyarrow import csv as arrow_csv

    schema = _build_schema(options.absolute_paths, options.further)
    stream.write(_format_header(schema.names))
    write_options = arrow_csv.WriteOptions(include_header=False, batch_size=4096)
    with arrow_csv.CSVWriter(stream, schema, write_options=write_options) as writer:
        return _write_batches(export, report, options, writer.write_batch, for_spreadsheets=True)


def _write_parquet(
    export: RunExport, report: ProgressCallback, options: _TableOptions, stream: IO[bytes]
) -> TableReport:
    from pyarrow import parquet

    with parquet.ParquetWriter(stream, _build_schema(options.absolute_paths, options.further)) as writer:
        return _write_batches(export, report, options, writer.write_batch)


def _write_batches(
    export: RunExport,
    report: ProgressCallback,
    options: _TableOptions,
    write: Callable[[pyarrow.RecordBatch], None],
    *,
    for_spreadsheets: bool = False,
) -> TableReport:
    import pyarrow as pa

    stage = ProgressStage("Writing", export.count_images(), report)
    images = not_assigned = 0
    for chunk in export.iterate_chunks():
        is_included = np.ones(len(chunk.ids), np.bool_) if options.excluded else ~chunk.is_excluded
        batch = build_record_batch(
            export,
            chunk,
            for_spreadsheets=for_spreadsheets,
            absolute_paths=options.absolute_paths,
            further=options.further,
        )
        write(batch if options.excluded else batch.filter(pa.array(is_included)))
        images += int(is_included.sum())
        not_assigned += int((~chunk.is_assigned & is_included).sum())
        stage.advance(len(chunk.ids))
    stage.finish()
    return TableReport(images, not_assigned)


def build_record_batch(
    export: RunExport,
    chunk: RowChunk,
    *,
    for_spreadsheets: bool = False,
    absolute_paths: bool = False,
    further: ExportedColumns | None = None,
) -> pyarrow.RecordBatch:
    """Return a chunk as Arrow columns.

    Args:
        export: the rows of the run.
        chunk: one of its chunks.
        for_spreadsheets: escape text that a spreadsheet would read as a formula.
        absolute_paths: add the column of absolute paths.
        further: columns of the dataset to add.
    """
    import pyarrow as pa

    change = escape_formula if for_spreadsheets else str
    numbers = sorted(export.names)
    named = np.isin(chunk.cluster, numbers)
    name = np.where(named, np.searchsorted(numbers, chunk.cluster), MISSING)
    sources = np.where(chunk.is_manual, 1, np.where(chunk.is_assigned, 0, 2))
    columns = {
        "path": _format_paths(chunk, for_spreadsheets=for_spreadsheets),
        "cluster": pa.array(chunk.cluster, mask=~chunk.is_assigned),
        "cluster_name": _expand_texts(CodedTexts(name, [export.names[number] for number in numbers]), change),
        "confidence": _to_nullable(chunk.confidence),
        "second_cluster": pa.array(chunk.second_cluster, mask=chunk.second_cluster == MISSING),
        "second_probability": _to_nullable(chunk.second_probability),
        "label": _expand_texts(chunk.label, change),
        "source": _expand_texts(CodedTexts(sources, (MODEL, PERSON, NOT_ASSIGNED))),
        "excluded": pa.array(chunk.is_excluded),
        "map_x": _to_nullable(chunk.coordinates[:, 0]),
        "map_y": _to_nullable(chunk.coordinates[:, 1]),
        "class": _expand_texts(chunk.class_, lambda name: change(to_printable(name))),
        "run": pa.repeat(export.run, len(chunk.ids)),
        "image_id": pa.array(chunk.ids),
    }
    if absolute_paths:
        columns[ABSOLUTE_PATH] = pa.array(_list_absolute_paths(export, chunk, change), pa.string())
    if further is not None:
        columns.update(zip(further.names, further.build_arrays(chunk.ids, change), strict=True))
    schema = _build_schema(absolute_paths, further)
    return pa.record_batch([columns[title] for title in schema.names], schema=schema)


def _list_absolute_paths(export: RunExport, chunk: RowChunk, change: Callable[[str], str]) -> list[str | None]:
    folder = get_original_folder(export.dataset)
    if folder is None:
        return [None] * len(chunk.ids)
    return [change(to_printable(os.path.join(folder, path))) for path in chunk.paths]


def _to_nullable(values: NDArray[np.float32]) -> pyarrow.Array:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(values), mask=np.isnan(values))


def _expand_texts(texts: CodedTexts, change: Callable[[str], str] = str) -> pyarrow.Array:
    """Return the text of each row; `change` is called once per distinct text."""
    import pyarrow as pa

    used, index = np.unique(texts.codes, return_inverse=True)
    names = [None if number == MISSING else change(texts.names[number]) for number in used.tolist()]
    return pa.array(names, pa.string()).take(pa.array(index))


def _format_paths(chunk: RowChunk, *, for_spreadsheets: bool) -> pyarrow.Array:
    """Return paths in printable form; only those with unusual characters are converted one by one in Python."""
    import pyarrow as pa
    from pyarrow import compute

    pattern = _PLAIN_AND_NO_FORMULA if for_spreadsheets else _PLAIN
    needs_change = compute.invert(compute.match_substring_regex(chunk.stored_paths, pattern))
    paths = [to_printable(decode_path(path)) for path in chunk.stored_paths.filter(needs_change).to_pylist()]
    texts = [(escape_formula(path) if for_spreadsheets else path).encode() for path in paths]
    changed = compute.replace_with_mask(chunk.stored_paths, needs_change, pa.array(texts, pa.large_binary()))
    return changed.cast(pa.string())


def _build_schema(absolute_paths: bool, further: ExportedColumns | None) -> pyarrow.Schema:
    import pyarrow as pa

    path, *rest = COLUMNS
    names = [path, *([ABSOLUTE_PATH] if absolute_paths else []), *rest]
    fields = [pa.field(name, getattr(pa, _ARROW_TYPES.get(name, "string"))()) for name in names]
    return pa.schema([*fields, *(() if further is None else further.build_fields())])


def _format_header(names: Iterable[str]) -> bytes:
    """Return the first line of a CSV file; a column of a list may have any name."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([escape_formula(name) for name in names])
    return stream.getvalue().encode()
