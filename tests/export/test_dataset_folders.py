"""Folders for Hugging Face datasets and FiftyOne, loaded with the real library where it is light enough."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.annotations.state import AnnotationState
from crlc.data.options import ImportOptions
from crlc.errors import SourceError, UsageError
from crlc.export import dataset_folders
from crlc.export.dataset_folders import (
    METADATA_FILE,
    DatasetFolderReport,
    write_fiftyone_folder,
    write_image_folder,
)
from crlc.export.folders import write_cluster_folders
from crlc.export.rows import RunExport
from crlc.export.tables import COLUMNS
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import write_handmade_run
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import CLUSTERS, annotate_tiny_run, import_tiny_dataset, write_tiny_run


@pytest.fixture
def export(workspace: Workspace, tmp_path: Path) -> RunExport:
    """Return twelve images: 1 has a label, 2 is excluded, the original of 12 is missing, cluster 0 is called `test`."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    state = annotate_tiny_run(dataset, run, "=dog", "test")
    (tmp_path / "set" / "c" / "00003.png").unlink()
    return RunExport.from_run(run, dataset, state)


@pytest.mark.parametrize("kind", ["absolute", "relative", "copy"])
def test_image_folder_loads_with_hugging_face_datasets(
    export: RunExport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    import datasets

    folder = tmp_path / "out"
    assert write_image_folder(export, folder, kind) == DatasetFolderReport(10, 1, 0, 1)
    assert (folder / "0" / "00000001.png").is_symlink() == (kind != "copy")
    loaded = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=str(tmp_path / "hf"))
    assert len(loaded) == 10  # all: a cluster that is called `test` must not become a split
    rows = sorted(loaded, key=lambda row: row["image_id"])
    assert [row["image_id"] for row in rows] == [1, *range(3, 12)]
    assert [row["cluster"] for row in rows] == [CLUSTERS[row["image_id"] - 1] for row in rows]
    assert (rows[0]["label"], rows[0]["cluster_name"], rows[0]["path"]) == ("=dog", "test", "a/00000.png")
    assert np.array_equal(rows[0]["image"].convert("RGB"), Image.open(tmp_path / "set" / "a" / "00000.png"))


@pytest.mark.parametrize("kind", ["absolute", "copy"])
@pytest.mark.parametrize("write", [write_image_folder, write_fiftyone_folder, write_cluster_folders])
def test_folders_of_vectors_without_files_are_refused_and_leave_nothing(
    workspace: Workspace, tmp_path: Path, write: Callable[..., object], kind: str
):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "list.csv").write_text("path\na.jpg\nb.jpg\n")
    options = ImportOptions(placeholders=True, workers=1)
    dataset, _ = workspace.import_dataset(str(tmp_path / "in" / "list.csv"), name="points", options=options)
    points = RunExport.from_run(write_handmade_run(workspace, dataset, [0, 1], 2), dataset, AnnotationState())
    with pytest.raises(SourceError, match=r"2 original images of points .*vectors") as error:
        write(points, tmp_path / "out", kind)
    assert "table" in error.value.advice
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["in", workspace.root.name]


LIST = (
    "path,score,when,original_file_name,image,_a.b\n"
    "x/00000.png,2,2024-05-01 12:00,one.png,first,=Bonn\nx/00001.png,,,,,\n"
    "x/00002.png,-2.5,2023-01-01,three.png,,Köln\n"
)


@pytest.fixture
def listed(workspace: Workspace, tmp_path: Path) -> RunExport:
    """Return three images of a list with columns whose names have a meaning in other tools."""
    save_images(tmp_path / "in" / "x", 3)
    (tmp_path / "in" / "list.csv").write_text(LIST)
    dataset, _ = workspace.import_dataset(str(tmp_path / "in" / "list.csv"), name="listed")
    return RunExport.from_run(write_handmade_run(workspace, dataset, [0, 1, 0], 2), dataset, AnnotationState())


def load_image_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    import datasets

    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(folder), split="train", cache_dir=str(folder.with_name("hf"))
    )
    return sorted(loaded, key=lambda row: row["image_id"])


def test_image_folder_has_the_columns_of_exported_tables(
    listed: RunExport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_image_folder(listed, tmp_path / "out", "copy")
    rows = load_image_folder(tmp_path / "out", monkeypatch)
    assert set(COLUMNS) < set(rows[0])
    assert [row["score"] for row in rows] == [2.0, None, -2.5]
    assert [row["when"] for row in rows] == ["2024-05-01 12:00:00", None, "2023-01-01 00:00:00"]
    assert [row["original_filename"] for row in rows] == ["one.png", None, "three.png"]  # a text, no image to load
    assert [row["list_image"] for row in rows] == ["first", None, None]
    assert [row["_a.b"] for row in rows] == ["=Bonn", None, "Köln"]
    assert [row["width"] for row in rows] == [24] * 3
    write_image_folder(listed, tmp_path / "short", columns=False)
    assert (tmp_path / "short" / METADATA_FILE).read_text().splitlines()[0] == ",".join(
        f'"{name}"' for name in ("file_name", *COLUMNS)
    )


def test_image_folder_of_many_images_is_loaded_with_values_after_the_first_rows(
    listed: RunExport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Hugging Face takes the types of a CSV file from its first 10,000 rows; a smaller limit stands for them here."""
    monkeypatch.setattr(dataset_folders, "MAX_CSV_IMAGES", 2)
    write_image_folder(listed, tmp_path / "out")
    assert not (tmp_path / "out" / METADATA_FILE).exists()
    rows = load_image_folder(tmp_path / "out", monkeypatch)
    assert [row["score"] for row in rows] == [2.0, None, -2.5]
    assert [row["when"] for row in rows] == [datetime(2024, 5, 1, 12), None, datetime(2023, 1, 1)]
    assert [row["image"].size for row in rows] == [(24, 24)] * 3


def test_fiftyone_labels_have_columns_with_names_of_fields(listed: RunExport, tmp_path: Path):
    write_fiftyone_folder(listed, tmp_path / "out")
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())["labels"]
    attributes = labels["0/00000001"]["attributes"]
    assert (attributes["score"], attributes["when"], attributes["a_b"]) == (2.0, "2024-05-01T12:00:00", "=Bonn")
    assert (attributes["path"], attributes["width"]) == ("x/00000.png", 24)
    assert "score" not in labels["1/00000002"]["attributes"]
    write_fiftyone_folder(listed, tmp_path / "short", columns=False)
    labels = json.loads((tmp_path / "short" / "labels.json").read_text())["labels"]
    assert set(labels["0/00000001"]["attributes"]) == {"cluster", "source", "path", "image_id"}


def test_image_folder_relative_links_survive_a_move(export: RunExport, tmp_path: Path):
    write_image_folder(export, tmp_path / "out", "relative")
    (tmp_path / "moved").mkdir()
    for name in ("set", "out"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    link = tmp_path / "moved" / "out" / "1" / "00000005.png"
    assert not os.path.isabs(os.readlink(link))
    assert link.resolve() == tmp_path / "moved" / "set" / "b" / "00000.png"


def test_fiftyone_folder_has_the_layout_that_fiftyone_documents(export: RunExport, tmp_path: Path):
    """Check the structure only: FiftyOne needs a database server.

    By hand, `FiftyOneImageClassificationDatasetImporter` of version 1.22, which `Dataset.from_dir` uses, read all
    samples of links and of copies with label, confidence and attributes.
    """
    folder = tmp_path / "out"
    assert write_fiftyone_folder(export, folder, columns=False) == DatasetFolderReport(10, 1, 0, 1)
    content = json.loads((folder / "labels.json").read_text())
    assert content["classes"] == ["test", "cluster 1", "cluster 2", "=dog"]
    files = {str(file.relative_to(folder / "data").with_suffix("")) for file in (folder / "data").glob("*/*")}
    assert set(content["labels"]) == files
    assert content["labels"]["0/00000001"] == {
        "label": 3,
        "attributes": {
            "cluster": 0, "source": "person", "path": "a/00000.png", "image_id": 1, "ground_truth": "a"
        },
    }  # fmt: skip
    assert content["labels"]["0/00000003"]["label"] == 0
    assert content["labels"]["0/00000003"]["confidence"] == pytest.approx(0.7)


def test_dataset_folders_leave_nothing_behind_after_an_error(export: RunExport, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    before = sorted(tmp_path.iterdir())
    for write in (write_image_folder, write_fiftyone_folder):
        with pytest.raises(UsageError, match="not empty"):
            write(export, tmp_path / "full")
        with pytest.raises(UsageError, match="original images"):
            write(export, tmp_path / "set" / "out")
    assert sorted(tmp_path.iterdir()) == before
