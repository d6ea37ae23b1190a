"""Damaged manifests: bytes that are not UTF-8 in the schema, and values of wrong types, are clear errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from crlc.data.column_reader import read_all_columns
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import search_paths
from crlc.data.manifest import MANIFEST_FILE, Manifest
from crlc.data.manifest_columns import read_content_versions, read_image_columns
from crlc.errors import DamagedError
from crlc.workspace import Workspace
from tests.fixtures.mutations import replace_bytes
from tests.fixtures.tiny_run import import_tiny_dataset


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    return import_tiny_dataset(workspace, tmp_path / "set")


def read_columns(dataset: ImageDataset) -> None:
    with Manifest(dataset.folder) as manifest:
        read_image_columns(manifest)
        read_content_versions(manifest)


READERS: list[Callable[[ImageDataset], object]] = [
    lambda dataset: dataset.summarize(),
    lambda dataset: dataset.sample_records(12),
    lambda dataset: dataset.read_metadata(np.arange(1, 13)),
    lambda dataset: dataset.read_content_versions(np.arange(1, 13)),
    lambda dataset: search_paths(dataset, "a"),
    read_columns,
    read_all_columns,
]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("images.hash", "'{}'"),
        ("images.content_version", "'{\"ids\":[1e400]}'"),
        ("images.content_version", "9e999"),
        ("images.content_version", "1.5"),
        ("images.width", "'x'"),
        ("images.path", "'text'"),
        ("images.path", "NULL"),
        ("images.class", "x'ff00'"),
        ("images.split", "x'05'"),
        ("images.bytes", "'[[['"),
        ("photo_values.longitude", "'[[['"),
        ("photo_values.brightness", "'x'"),
        ("sqlite_sequence.seq", "'x'"),
    ],
)
def test_manifest_with_a_value_of_a_wrong_type_is_readable_or_damaged(dataset: ImageDataset, column: str, value: str):
    table, name = column.split(".")
    with closing(sqlite3.connect(dataset.folder / MANIFEST_FILE)) as connection:
        connection.execute(f"UPDATE {table} SET {name} = {value} WHERE rowid = (SELECT max(rowid) FROM {table})")
        connection.commit()
    refused = 0
    for read in READERS:
        try:
            read(dataset)
        except DamagedError as error:  # any other error is a failure
            refused += MANIFEST_FILE in error.message
    assert refused


def test_manifest_whose_schema_is_not_text_is_damaged(
    crlc, workspace: Workspace, dataset: ImageDataset, tmp_path: Path
):
    other = import_tiny_dataset(workspace, tmp_path / "other")
    replace_bytes(dataset.folder / MANIFEST_FILE, b"CREATE TABLE meta", b"CREATE T\x93BLE meta")
    with pytest.raises(DamagedError, match=r"manifest\.sqlite cannot be read"):
        dataset.summarize()
    outcome = crlc("datasets", "--json").json
    found = {entry["name"]: entry for entry in outcome["datasets"]}
    assert found[other.name]["readable"] == 12
    assert MANIFEST_FILE in found[dataset.name]["error"]


def test_manifest_context_explains_text_that_cannot_be_decoded(dataset: ImageDataset):
    with pytest.raises(DamagedError, match=r"manifest\.sqlite cannot be read"), Manifest(dataset.folder):
        b"\x93".decode()
