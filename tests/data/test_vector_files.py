"""Files of vectors: .npy, .npz and .parquet, and what is wrong with others."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from crlc.data.vector_files import VECTORS_PER_CHUNK, open_vector_file
from crlc.errors import SourceError

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
PATHS = ["a.png", "b.png", "c.png", "é.png"]


def write_parquet(file: Path, **columns: object) -> Path:
    pyarrow.parquet.write_table(pa.table(columns), file)
    return file


def read_all(file: Path) -> np.ndarray:
    return np.concatenate(list(open_vector_file(file).iterate_chunks()))


def test_npy_keeps_half_precision_and_widens_other_numbers_to_float32(tmp_path: Path):
    for dtype, stored in (("float16", "float16"), ("float64", "float32"), ("int32", "float32"), ("float32", "float32")):
        np.save(tmp_path / f"{dtype}.npy", ROWS.astype(dtype))
        opened = open_vector_file(tmp_path / f"{dtype}.npy")
        assert (opened.count, opened.dimensions, opened.paths) == (4, 3, None)
        found = read_all(tmp_path / f"{dtype}.npy")
        assert (found.dtype, found.tolist()) == (stored, ROWS.tolist())


def test_npz_finds_vectors_and_paths_by_name_or_as_the_only_other_array(tmp_path: Path):
    np.savez(tmp_path / "a.npz", Embeddings=ROWS, paths=np.array(PATHS), more=np.zeros(2))
    np.savez(tmp_path / "b.npz", anything=ROWS, filename=np.array(PATHS))
    for name in ("a.npz", "b.npz"):
        assert open_vector_file(tmp_path / name).paths == PATHS
        assert read_all(tmp_path / name).tolist() == ROWS.tolist()


def test_parquet_has_a_column_of_lists_of_any_kind(tmp_path: Path):
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 3)
    for name, column in (("list", ROWS.tolist()), ("fixed", fixed)):
        file = write_parquet(tmp_path / f"{name}.parquet", path=PATHS, size=[1, 2, 3, 4], vec=column)
        assert open_vector_file(file).paths == PATHS
        assert read_all(file).tolist() == ROWS.tolist()


def test_chunks_of_a_long_file_are_in_order(tmp_path: Path):
    rows = np.arange(2 * (VECTORS_PER_CHUNK + 5), dtype=np.float32).reshape(-1, 2)
    np.save(tmp_path / "a.npy", rows)
    write_parquet(tmp_path / "a.parquet", vector=rows.tolist())
    for name in ("a.npy", "a.parquet"):
        assert np.array_equal(read_all(tmp_path / name), rows)
        assert len(list(open_vector_file(tmp_path / name).iterate_chunks())) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([["a", "b"]]), "matrix of numbers"),
        (np.array([[None, 1]]), "pickling"),
        (np.zeros((0, 3)), "no vectors"),
        (np.zeros((3, 1)), "2 to"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "row 2"),
        (np.array([[1.0, 1e300]]), "row 1"),
    ],
)
def test_npy_with_other_content_is_refused(tmp_path: Path, content: np.ndarray, words: str):
    np.save(tmp_path / "a.npy", content, allow_pickle=True)
    with pytest.raises(SourceError, match=words), np.errstate(over="ignore"):
        read_all(tmp_path / "a.npy")


def test_other_files_are_refused(tmp_path: Path):
    (tmp_path / "a.txt").write_text("1 2")
    (tmp_path / "short.npy").write_text("1 2 3")
    (tmp_path / "empty.npy").write_bytes(b"")
    np.save(tmp_path / "cut.npy", ROWS)
    os.truncate(tmp_path / "cut.npy", 140)
    (tmp_path / "a.npz").write_text("no archive")
    (tmp_path / "a.parquet").write_text("no table")
    np.savez(tmp_path / "b.npz", one=ROWS, two=ROWS)
    np.savez(tmp_path / "c.npz", vectors=ROWS, paths=np.array(PATHS[:2]))
    write_parquet(tmp_path / "b.parquet", path=PATHS)
    write_parquet(tmp_path / "c.parquet", vector=[[1.0, 2.0], [3.0], [1.0, 1.0], None])
    for name, words in (
        ("a.txt", "must end in"),
        ("short.npy", r"short\.npy is not a NumPy file\. Save"),
        ("empty.npy", r"empty\.npy is not a NumPy file\. Save"),
        ("cut.npy", r"cut\.npy cannot be read: .*[^.]\. Save"),
        ("a.npz", r"a\.npz is not a NumPy archive\. Save"),
        ("a.parquet", r"a\.parquet is not a Parquet file\. Save"),
        ("missing.npy", "cannot be read"),
        ("b.npz", "one, two"),
        ("c.npz", "4 vectors, but 2 paths"),
        ("b.parquet", "no column of vectors"),
        ("c.parquet", "different lengths"),
    ):
        with pytest.raises(SourceError, match=words):
            read_all(tmp_path / name)
