"""Files of vectors that the user brings: .npy, .npz and .parquet, read a few thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.array_files import list_texts, load_array, open_array_archive
from crlc.data.sources.table import PATH_COLUMNS
from crlc.errors import SourceError
from crlc.paths import to_printable

VECTORS_PER_CHUNK = 4096
_FORMATS = {
    ".npy": ("NumPy file", b"\x93NUMPY"),
    ".npz": ("NumPy archive", b"PK"),
    ".parquet": ("Parquet file", b"PAR1"),
}
"""Name of the format and the first bytes of its files, by suffix."""

_SAVE_ADVICE = "Save the vectors with numpy.save, numpy.savez or as Parquet."
_VECTOR_NAMES = ("vectors", "vector", "embeddings", "embedding", "features", "feature", "x")
_PATH_NAMES = (*PATH_COLUMNS, "paths", "images", "files", "filenames", "filepaths", "file_names", "image_paths")
_MATRIX_AXES = 2
MAX_DIMENSIONS = 65_536


@dataclass(frozen=True)
class VectorFile:
    """Vectors of a file, with the path of each if the file has them."""

    location: str
    count: int
    dimensions: int
    paths: list[str] | None
    _matrix: NDArray[Any] | None = None
    """The vectors of .npy, memory-mapped, and of .npz; `None` for .parquet."""

    _column: str = ""
    """Column of vectors in .parquet."""

    def iterate_chunks(self) -> Iterator[NDArray[Any]]:
        """Yield all vectors, (n, d), as float16 if the file has half precision, else as float32.

        Raises:
            SourceError: a value is not finite, or vectors have different lengths.
        """
        start = 0
        for chunk in self._read_chunks():
            kept = chunk if chunk.dtype == np.float16 else chunk.astype(np.float32)
            wrong = np.flatnonzero(~np.isfinite(kept).all(axis=1))
            if len(wrong):
                raise SourceError(
                    f"{self.location}: the vector in row {start + int(wrong[0]) + 1:,} has a value that is not a "
                    "finite 32-bit number.",
                    advice="Replace or remove such vectors.",
                )
            yield kept
            start += len(chunk)

    def _read_chunks(self) -> Iterator[NDArray[Any]]:
        if self._matrix is not None:
            for start in range(0, self.count, VECTORS_PER_CHUNK):
                yield self._matrix[start : start + VECTORS_PER_CHUNK]
            return
        from pyarrow import parquet

        with parquet.ParquetFile(self.location) as file:
            for batch in file.iter_batches(VECTORS_PER_CHUNK, columns=[self._column]):
                yield _to_matrix(batch.column(0), self.dimensions, self.location)


def open_vector_file(file: Path) -> VectorFile:
    """Open a file of vectors, and check its form.

    Args:
        file: .npy with a matrix; .npz with a matrix and, optionally, paths; .parquet with a column of lists and,
            optionally, a column of paths.

    Raises:
        SourceError: the file cannot be read, or has no such content.
    """
    shown, suffix = to_printable(str(file)), file.suffix.lower()
    if suffix not in _FORMATS:
        raise SourceError(
            f"{shown} is not a file of vectors: it must end in {', '.join(_FORMATS)}.", advice=_SAVE_ADVICE
        )
    with _explain_errors(file, shown):
        if suffix == ".parquet":
            return _open_parquet(file, shown)
        return _open_arrays(file, shown) if suffix == ".npz" else _open_matrix(file, shown)


@contextmanager
def _explain_errors(file: Path, shown: str) -> Iterator[None]:
    try:
        yield
    except SourceError:
        raise
    except OSError as error:  # also of pyarrow
        raise SourceError(f"{shown} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        name, first_bytes = _FORMATS[file.suffix.lower()]
        with file.open("rb") as stream:
            is_of_format = stream.read(len(first_bytes)) == first_bytes
        if not is_of_format:
            raise SourceError(f"{shown} is not a {name}.", advice=_SAVE_ADVICE) from None
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise SourceError(
            f"{shown} cannot be read: {reason}.", advice="Save plain numbers, without pickling."
        ) from None


def _open_matrix(file: Path, shown: str) -> VectorFile:
    return _build(shown, load_array(file, is_mapped=True), None)


def _open_arrays(file: Path, shown: str) -> VectorFile:
    with open_array_archive(file) as arrays:
        names = {name.lower(): name for name in arrays.names}
        chosen = next((names[name] for name in _VECTOR_NAMES if name in names), None)
        path_name = next((names[name] for name in _PATH_NAMES if name in names), None)
        if chosen is None:
            others = [name for name in arrays.names if name != path_name]
            chosen = others[0] if len(others) == 1 else None
        if chosen is None:
            raise SourceError(
                f"{shown} has no array of vectors. Its arrays are: {', '.join(arrays.names) or 'none'}.",
                advice=f"Name the array one of {', '.join(_VECTOR_NAMES)}.",
            )
        paths = None if path_name is None else list_texts(arrays.read(path_name))
        return _build(shown, arrays.read(chosen), paths)


def _build(shown: str, matrix: NDArray[Any], paths: list[str] | None) -> VectorFile:
    if matrix.ndim != _MATRIX_AXES or matrix.dtype.kind not in "fiu":
        raise SourceError(
            f"{shown} has values of shape {matrix.shape} and type {matrix.dtype}: it must be a matrix of numbers with "
            "one row per image."
        )
    found = VectorFile(shown, len(matrix), matrix.shape[1], paths, matrix)
    return _check(found)


def _open_parquet(file: Path, shown: str) -> VectorFile:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        schema = opened.schema_arrow
        lists = [field.name for field in schema if is_vector_type(field.type)]
        chosen = next((name for known in _VECTOR_NAMES for name in lists if name.lower() == known), None)
        chosen = chosen or (lists[0] if len(lists) == 1 else None)
        if chosen is None:
            raise SourceError(
                f"{shown} has no column of vectors. Its columns are: {', '.join(schema.names)}.",
                advice=f"Add a column with a list of numbers per row, named one of {', '.join(_VECTOR_NAMES)}.",
            )
        path_name = next((name for known in _PATH_NAMES for name in schema.names if name.lower() == known), None)
        paths = None
        if path_name is not None:
            column = opened.read([path_name]).column(0).cast(pa.string())
            paths = [path or "" for path in column.to_pylist()]
        first = next(opened.iter_batches(1, columns=[chosen]), None)
        dimensions = 0 if first is None or first.column(0)[0].as_py() is None else len(first.column(0)[0])
        return _check(VectorFile(str(file), opened.metadata.num_rows, dimensions, paths, None, chosen))


def is_vector_type(kind: Any) -> bool:
    """Return whether an Arrow type is a list of numbers."""
    import pyarrow as pa

    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)))


def _to_matrix(column: Any, dimensions: int, shown: str) -> NDArray[Any]:
    """Return a column of lists as a matrix."""
    from pyarrow import compute

    lengths = compute.unique(compute.list_value_length(column)).to_pylist()
    if lengths != [dimensions] or column.flatten().null_count:
        raise SourceError(
            f"{shown} has vectors of different lengths, or missing values: each must have {dimensions:,} numbers."
        )
    return np.asarray(column.flatten()).reshape(len(column), dimensions)


def _check(file: VectorFile) -> VectorFile:
    if not file.count:
        raise SourceError(f"{file.location} has no vectors.")
    if not 1 < file.dimensions <= MAX_DIMENSIONS:
        raise SourceError(
            f"{file.location} has vectors of {file.dimensions:,} numbers: they must have 2 to {MAX_DIMENSIONS:,}."
        )
    if file.paths is not None and len(file.paths) != file.count:
        raise SourceError(
            f"{file.location} has {file.count:,} vectors, but {len(file.paths):,} paths: each vector needs one."
        )
    return file
