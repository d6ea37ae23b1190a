"""Tests of whole columns of a manifest, against its rows one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.data import dataset as dataset_module
from crlc.data import manifest_columns
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import read_content_versions, read_image_columns
from crlc.paths import decode_path
from tests.fixtures.handmade_dataset import change_content, remove_image, write_handmade_dataset

PATHS = ["plain.png", "caf\udce9.png", "two\nlines", "nul\x00inside", "größe/😀.png", "=1+1", " ", "gone", "last"]
CLASSES = {1: "cat", 2: "", 3: "größe", 5: "a\x00b", 8: "dog", 9: "cat"}


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    dataset = write_handmade_dataset(tmp_path, PATHS)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "UPDATE images SET class = ? WHERE id = ?", [(name, number) for number, name in CLASSES.items()]
        )
    remove_image(dataset, 8)
    change_content(dataset, 9)
    return dataset


def read_texts(column: manifest_columns.TextColumn) -> list[bytes | None]:
    """Return the texts of a column, `None` for those that are missing."""
    begins = column.offsets.tolist()
    return [
        None if length < 0 else column.content[begin:end]
        for length, begin, end in zip(column.lengths.tolist(), begins, begins[1:], strict=False)
    ]


@pytest.mark.parametrize("block_ids", [1, 3, 1000])
def test_image_columns_equal_the_rows(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch, block_ids: int):
    monkeypatch.setattr(manifest_columns, "_BLOCK_IDS", block_ids)
    with Manifest(dataset.folder) as manifest:
        found = read_image_columns(manifest)
        records = {record.id: record for record in manifest.read_records("status = 'ok'")}
        ids, versions = read_content_versions(manifest)
    paths, classes = read_texts(found.paths), read_texts(found.classes)
    assert sorted(found.ids.tolist()) == sorted(records) == [1, 2, 3, 4, 5, 6, 7, 9]
    for number, version, path, name in zip(
        found.ids.tolist(), found.content_versions.tolist(), paths, classes, strict=True
    ):
        assert path is not None
        assert decode_path(path) == records[number].path == PATHS[number - 1]
        assert (None if name is None else name.decode()) == records[number].class_name == CLASSES.get(number)
        assert version == records[number].content_version == (2 if number == 9 else 1)
    assert dict(zip(ids.tolist(), versions.tolist(), strict=True)) == {n: r.content_version for n, r in records.items()}


def test_image_columns_without_readable_images_are_empty(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, ["a.png"])
    remove_image(dataset, 1)
    with Manifest(dataset.folder) as manifest:
        found = read_image_columns(manifest)
        assert [len(array) for array in read_content_versions(manifest)] == [0, 0]
    assert (len(found.ids), len(found.paths.lengths), found.paths.content) == (0, 0, b"")
    assert found.classes.offsets.tolist() == [0]


def test_image_columns_are_of_one_snapshot(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    """An import that finishes between two blocks is either seen completely or not at all."""
    monkeypatch.setattr(manifest_columns, "_BLOCK_IDS", 2)
    with Manifest(dataset.folder) as manifest:
        parts = manifest_columns._read_blocks(manifest, "SELECT group_concat(id) FROM images WHERE id > ? AND id <= ?")
        assert next(parts) == ("1,2",)
        with Manifest(dataset.folder) as other, other.transaction():
            other.connection.execute("DELETE FROM images WHERE id > 2")
        assert [row[0] for row in parts] == ["3,4", "5,6", "7,8", "9"]
    with Manifest(dataset.folder) as manifest:
        assert read_content_versions(manifest)[0].tolist() == [1, 2]


def test_content_versions_of_many_ids_equal_those_of_few(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    ids = np.array([9, 1, 8, -3, 0, 10**15, 2, 2])
    few = dataset.read_content_versions(ids)
    monkeypatch.setattr(dataset_module, "_MAX_SINGLE_LOOKUPS", 0)
    assert dataset.read_content_versions(ids).tolist() == few.tolist() == [2, 1, 0, 0, 0, 0, 1, 1]
