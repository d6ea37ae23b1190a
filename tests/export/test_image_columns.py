"""Tests of the columns of a dataset in exported tables: types, names that clash, missing values, and any text."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.export.image_columns import ExportedColumns, describe_exported_columns
from crlc.export.rows import RunExport
from crlc.export.tables import ALL_COLUMNS, COLUMNS, write_table
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import write_handmade_run
from tests.fixtures.images import save_images

LIST = (
    'path,score,when,"=city, or ""place""",run\n'
    "00000.png,1.5,2024-05-01 12:00,=Bonn,r\n00001.png,,,,\n00002.png,-2,2023-01-01,=Bonn,s\n"
)


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    save_images(tmp_path / "in", 3)
    (tmp_path / "in" / "list.csv").write_text(LIST)
    options = ImportOptions(size=16, workers=1)
    return workspace.import_dataset(str(tmp_path / "in" / "list.csv"), name="set", options=options)[0]


@pytest.fixture
def export(workspace: Workspace, dataset: ImageDataset) -> RunExport:
    return RunExport.from_run(write_handmade_run(workspace, dataset, [0, 1, 0], 2), dataset, AnnotationState())


def test_csv_has_the_columns_after_those_of_the_run(export: RunExport, tmp_path: Path):
    write_table(export, tmp_path / "out.csv", columns=True)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    names = list(rows[0])
    assert names[: len(COLUMNS)] == list(COLUMNS)
    assert names[-4:] == ["score", "when", '\'=city, or "place"', "list_run"]
    assert [row["run"] for row in rows] == ["run-1"] * 3
    assert [row["list_run"] for row in rows] == ["r", "", "s"]
    assert [row["score"] for row in rows] == ["1.5", "", "-2"]
    assert [row["when"] for row in rows] == ["2024-05-01 12:00:00", "", "2023-01-01 00:00:00"]
    assert [row[names[-2]] for row in rows] == ["'=Bonn", "", "'=Bonn"]
    assert [row["width"] for row in rows] == ["24"] * 3


def test_parquet_is_typed(export: RunExport, tmp_path: Path):
    write_table(export, tmp_path / "out.parquet", columns=True)
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["when"].to_pylist() == [datetime(2024, 5, 1, 12), None, datetime(2023, 1, 1)]
    assert table["score"].to_pylist() == [1.5, None, -2.0]
    assert table["width"].type == pa.int64()
    assert table['=city, or "place"'].to_pylist() == ["=Bonn", None, "=Bonn"]
    assert set(table["quality"].to_pylist()) <= {"good", "blurred", "dark", "uniform"}


def test_table_without_columns_is_as_before(export: RunExport, tmp_path: Path):
    write_table(export, tmp_path / "out.csv")
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert header == ",".join(COLUMNS)


def test_images_that_were_added_meanwhile_have_no_values(dataset: ImageDataset):
    columns = ExportedColumns.read(dataset, np.array([1, 2]), ())
    arrays = dict(zip(columns.names, columns.build_arrays(np.array([3, 1])), strict=True))
    assert arrays["score"].to_pylist() == [None, 1.5]
    assert arrays["run"].to_pylist() == [None, "r"]


def test_every_exported_column_has_a_description(export: RunExport, dataset: ImageDataset, tmp_path: Path):
    write_table(export, tmp_path / "out.parquet", columns=True)
    names = parquet.read_schema(tmp_path / "out.parquet").names
    found = describe_exported_columns(dataset, ALL_COLUMNS)
    assert [*COLUMNS, *found] == names
    assert all(found.values())
