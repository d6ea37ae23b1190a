"""Tests of annotation files with damaged rows: an error that names the file, never another one."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.errors import DamagedError
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.mutations import DEEP_NESTING, WRONG_VALUES, change_entry, list_places

OPERATIONS = [
    ("label", {"ids": [1, 2], "name": "cat", "contents": 1}),
    ("exclude", {"ids": [3]}),
    ("name-cluster", {"run": "run-1", "result": "r", "cluster": 0, "name": "cat"}),
    ("merge-clusters", {"run": "run-1", "result": "r", "clusters": [0, 1]}),
    ("split-cluster", {"run": "run-1", "result": "r", "cluster": 0, "parts": [[1], [2]], "first_new": 2}),
    ("move-images", {"run": "run-1", "result": "r", "ids": [1], "cluster": 1}),
    ("group", {"title": "t", "operations": [{"kind": "unlabel", "content": {"ids": [1]}}]}),
    ("undo", {"operation": 1}),
]
NOT_UTF8 = "CAST(x'ff' AS TEXT)"
INSERT = "INSERT INTO operations (time, kind, run, title, content) VALUES"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> ImageDataset:
    """Return a dataset of six images with one operation."""
    dataset = write_handmade_dataset(tmp_path_factory.mktemp("labels"), build_numbered_paths(6))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
    return dataset


def read_all(dataset: ImageDataset) -> None:
    """Read the state and the history as a new process does."""
    with AnnotationStore(dataset) as annotations:
        annotations.refresh().to_label_set()
        annotations.read_history()


@settings(max_examples=150)
@given(data=st.data())
def test_annotation_store_reports_a_row_that_cannot_be_applied(labelled: ImageDataset, data: st.DataObject):
    kind, content = data.draw(st.sampled_from(OPERATIONS))
    place = data.draw(st.sampled_from([("kind",), *list_places({"content": content})]))
    value = data.draw(st.sampled_from([*WRONG_VALUES, [0], [2**40], [[1, "x"]]]))
    row = change_entry({"kind": kind, "content": content}, place, lambda parent, key: parent.__setitem__(key, value))
    kind_text = str(row["kind"]).encode("utf-8", "replace").decode()
    connection = sqlite3.connect(labelled.folder / "annotations.sqlite", isolation_level=None)
    connection.execute("DROP TRIGGER IF EXISTS operations_are_not_deleted")
    connection.execute(f"{INSERT} ('now', ?, NULL, 'x', ?)", (kind_text, json.dumps(row["content"])))
    try:
        read_all(labelled)  # a change may be harmless
    except DamagedError as error:
        message = str(error)
    else:
        message = "annotations.sqlite"
    finally:
        connection.execute("DELETE FROM operations WHERE id > 1")
        connection.close()
    assert "annotations.sqlite" in message


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("value", [NOT_UTF8, "x'ff00'"])
def test_annotation_store_reports_a_value_that_is_not_text(tmp_path: Path, column: int, value: str):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(6))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
    values = ["'now'", "'exclude'", "'x'", "'{\"ids\": [3]}'"]
    values[column] = value
    values.insert(2, "NULL")
    with sqlite3.connect(dataset.folder / "annotations.sqlite") as connection:
        connection.execute(f"{INSERT} ({', '.join(values)})")
    with pytest.raises(DamagedError, match=r"annotations\.sqlite"):
        read_all(dataset)


def test_annotation_store_reports_a_row_that_is_nested_too_deeply(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(6))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
    with sqlite3.connect(dataset.folder / "annotations.sqlite") as connection:
        connection.execute(f"{INSERT} ('now', 'exclude', NULL, 'x', ?)", (DEEP_NESTING,))
    with pytest.raises(DamagedError, match="row 2"):
        read_all(dataset)
