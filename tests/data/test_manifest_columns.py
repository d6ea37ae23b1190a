"""Whole columns of a manifest, against its rows one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.data import dataset as dataset_module
from crlc.data import manifest_columns
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import content_versions, readable_images
from crlc.names import path_from_bytes
from tests.workspace.handmade import change_content, handmade_dataset, remove_image

PATHS = ["plain.png", "caf\udce9.png", "two\nlines", "nul\x00inside", "größe/😀.png", "=1+1", " ", "gone", "last"]
CLASSES = {1: "cat", 2: "", 3: "größe", 5: "a\x00b", 8: "dog", 9: "cat"}


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    dataset = handmade_dataset(tmp_path, PATHS)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "UPDATE images SET class = ? WHERE id = ?", [(name, number) for number, name in CLASSES.items()]
        )
    remove_image(dataset, 8)
    change_content(dataset, 9)
    return dataset


def texts(column: manifest_columns.TextColumn) -> list[bytes | None]:
    begins = column.offsets.tolist()
    return [
        None if length < 0 else column.content[begin:end]
        for length, begin, end in zip(column.lengths.tolist(), begins, begins[1:], strict=False)
    ]


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_columns_are_what_the_rows_say(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch, at_once: int):
    monkeypatch.setattr(manifest_columns, "_IDS_AT_ONCE", at_once)
    with Manifest(dataset.folder) as manifest:
        found = readable_images(manifest)
        records = {record.id: record for record in manifest.records("status = 'ok'")}
        ids, versions = content_versions(manifest)
    paths, classes = texts(found.paths), texts(found.classes)
    assert sorted(found.ids.tolist()) == sorted(records) == [1, 2, 3, 4, 5, 6, 7, 9]
    for number, version, path, name in zip(
        found.ids.tolist(), found.content_versions.tolist(), paths, classes, strict=True
    ):
        assert path is not None
        assert path_from_bytes(path) == records[number].path == PATHS[number - 1]
        assert (None if name is None else name.decode()) == records[number].class_name == CLASSES.get(number)
        assert version == records[number].content_version == (2 if number == 9 else 1)
    assert dict(zip(ids.tolist(), versions.tolist(), strict=True)) == {n: r.content_version for n, r in records.items()}


def test_nothing_readable(tmp_path: Path):
    dataset = handmade_dataset(tmp_path, ["a.png"])
    remove_image(dataset, 1)
    with Manifest(dataset.folder) as manifest:
        found = readable_images(manifest)
        assert [len(array) for array in content_versions(manifest)] == [0, 0]
    assert (len(found.ids), len(found.paths.lengths), found.paths.content) == (0, 0, b"")
    assert found.classes.offsets.tolist() == [0]


def test_all_parts_are_of_one_state(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    """An import that ends between two parts is not seen by half."""
    monkeypatch.setattr(manifest_columns, "_IDS_AT_ONCE", 2)
    with Manifest(dataset.folder) as manifest:
        parts = manifest_columns._parts(manifest, "SELECT group_concat(id) FROM images WHERE id > ? AND id <= ?")
        assert next(parts) == ("1,2",)
        with Manifest(dataset.folder) as other, other.transaction():
            other.connection.execute("DELETE FROM images WHERE id > 2")
        assert [row[0] for row in parts] == ["3,4", "5,6", "7,8", "9"]
    with Manifest(dataset.folder) as manifest:
        assert content_versions(manifest)[0].tolist() == [1, 2]


def test_many_ids_are_looked_up_as_few_are(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    wanted = np.array([9, 1, 8, -3, 0, 10**15, 2, 2])
    few = dataset.content_versions(wanted)
    monkeypatch.setattr(dataset_module, "_FEW_IDS", 0)
    assert dataset.content_versions(wanted).tolist() == few.tolist() == [2, 1, 0, 0, 0, 0, 1, 1]
