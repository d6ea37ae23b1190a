"""Export of the feature vectors of images, with their paths: .parquet, .npz or .npy, in chunks."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from crlc.errors import UsageError
from crlc.export.destinations import explain_write_errors, require_new_file
from crlc.export.rows import RunExport
from crlc.files import write_new_file
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

VECTOR_SUFFIXES = (".parquet", ".npz", ".npy")
_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class VectorExportReport:
    """Number and length of the exported vectors, and number of the images left out."""

    images: int
    dimensions: int
    excluded: int
    not_assigned: int


@dataclass(frozen=True)
class _Selection:
    """The exported images in the order of their paths."""

    paths: list[str]
    rows: NDArray[np.int64]
    """Row of each image in the vectors."""


def write_vectors(
    export: RunExport, vectors: NDArray[Any], file: Path, report: ProgressCallback = no_progress
) -> VectorExportReport:
    """Write the vectors of all images that are not excluded, ordered by path. Vectors on disk are read in chunks.

    Args:
        export: the rows of the run.
        vectors: vectors of the result, which `export.rows` refers to, (N, d).
        file: the new file: .parquet with the columns `path` and `vector`; .npz with the arrays `paths` and `vectors`;
            or .npy with the vectors alone.
        report: receives progress.

    Raises:
        UsageError: the suffix is not known, or the file exists.
        CrlcError: the file cannot be written.
    """
    suffix = file.suffix.lower()
    if suffix not in VECTOR_SUFFIXES:
        raise UsageError(
            f"{to_printable(str(file))} is not allowed: the file must end in one of {', '.join(VECTOR_SUFFIXES)}."
        )
    require_new_file(file)
    selection, excluded, not_assigned = _select_images(export)
    stage = ProgressStage("Writing", len(selection.rows), report)
    writer = {".parquet": _write_parquet, ".npz": _write_npz, ".npy": _write_npy}[suffix]
    with explain_write_errors(file):
        write_new_file(file, lambda stream: writer(stream, selection, vectors, stage))
    stage.finish()
    return VectorExportReport(len(selection.rows), vectors.shape[1], excluded, not_assigned)


def _select_images(export: RunExport) -> tuple[_Selection, int, int]:
    paths: list[str] = []
    rows: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    excluded = not_assigned = 0
    for chunk in export.iterate_chunks():
        is_included = chunk.is_included
        excluded += chunk.count_excluded()
        not_assigned += chunk.count_not_assigned()
        paths += [to_printable(chunk.paths[row]) for row in np.flatnonzero(is_included).tolist()]
        rows.append(export.rows[export.index_by_id[chunk.ids[is_included]]])
    return _Selection(paths, np.concatenate(rows)), excluded, not_assigned


def _iterate_chunks(
    selection: _Selection, vectors: NDArray[Any], stage: ProgressStage
) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(selection.rows), _CHUNK_ROWS):
        chunk = np.asarray(vectors[selection.rows[start : start + _CHUNK_ROWS]], np.float32)
        yield chunk
        stage.advance(len(chunk))


def _write_npy(stream: IO[bytes], selection: _Selection, vectors: NDArray[Any], stage: ProgressStage) -> None:
    shape = (len(selection.rows), vectors.shape[1])
    header = {"descr": npy.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    for chunk in _iterate_chunks(selection, vectors, stage):
        stream.write(chunk.tobytes())


def _write_npz(stream: IO[bytes], selection: _Selection, vectors: NDArray[Any], stage: ProgressStage) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        with archive.open("paths.npy", "w", force_zip64=True) as member:
            npy.write_array(member, np.array(selection.paths, dtype=np.str_), allow_pickle=False)
        with archive.open("vectors.npy", "w", force_zip64=True) as member:
            _write_npy(member, selection, vectors, stage)


def _write_parquet(stream: IO[bytes], selection: _Selection, vectors: NDArray[Any], stage: ProgressStage) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([("path", pa.string()), ("vector", pa.list_(pa.float32(), vectors.shape[1]))])
    with parquet.ParquetWriter(stream, schema) as writer:
        start = 0
        for chunk in _iterate_chunks(selection, vectors, stage):
            column = pa.FixedSizeListArray.from_arrays(pa.array(chunk.ravel()), vectors.shape[1])
            paths = pa.array(selection.paths[start : start + len(chunk)], pa.string())
            writer.write_batch(pa.record_batch([paths, column], schema=schema))
            start += len(chunk)
