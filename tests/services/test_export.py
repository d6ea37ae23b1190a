"""Exporter: formats, options, destinations, previews."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from crlc.annotations.store import AnnotationStore
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.runs.folder import RunFolder
from crlc.services.export import FORMATS, PROVISIONAL_FORMATS, find_format, resolve_destination
from crlc.services.export_types import ExportOptions
from crlc.services.exporters import ProvisionalExporter, RunExporter
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.exported_tables import read_assignments
from tests.fixtures.tiny_run import (
    CLUSTERS,
    COORDINATES,
    annotate_tiny_run,
    import_tiny_dataset,
    write_exploration,
    write_tiny_run,
)

ALL = ExportOptions()


@pytest.fixture
def run(workspace: Workspace, tmp_path: Path) -> RunFolder:
    """Return a run in which image 1 has a formula as label, image 2 is excluded and cluster 0 has a name."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    annotate_tiny_run(dataset, run, "=cmd()", "cats <b>")
    return run


@pytest.fixture
def exporter(workspace: Workspace, run: RunFolder) -> RunExporter:
    return RunExporter(workspace, run)


def test_preview_of_a_table_has_rows_of_all_clusters(exporter: RunExporter, tmp_path: Path):
    csv = FORMATS["csv"]
    preview = exporter.preview(csv, ALL)
    report = exporter.write(csv, tmp_path / "all.csv", ALL)
    written = list(read_assignments(tmp_path / "all.csv"))
    assert preview.count == report.details["images"] == len(written) == 12
    assert [row["path"] for row in preview.rows] == [row.path for row in written]
    assert [row["cluster"] for row in preview.rows] == [row.cluster for row in written] == CLUSTERS
    assert preview.rows[0]["label"] == "=cmd()"
    assert len(preview.remarks) == 1
    assert [row["image_id"] for row in exporter.preview(csv, ExportOptions(excluded=False), 3).rows] == [1, 5, 9]


def test_write_table_can_leave_out_excluded_images(exporter: RunExporter, tmp_path: Path):
    without = ExportOptions(excluded=False)
    assert exporter.preview(FORMATS["csv"], without).count == 11
    exporter.write(FORMATS["parquet"], tmp_path / "some.parquet", without)
    assert [row.image_id for row in read_assignments(tmp_path / "some.parquet")] == [1, *range(3, 13)]


def test_preview_shows_folders_and_labels_but_no_model(exporter: RunExporter):
    folders = exporter.preview(FORMATS["folders"], ALL)
    assert [(row["cluster"], row["name"], row["images"]) for row in folders.rows] == [
        (0, "cats <b>", 3),
        (1, "", 4),
        (2, "", 4),
    ]
    labels = exporter.preview(FORMATS["labels"], ALL)
    assert (labels.rows, labels.count) == ([{"path": "a/00000.png", "label": "=cmd()"}], 1)
    assert exporter.preview(FORMATS["model"], ALL) is None


def test_write_folders_counts_the_images_left_out(exporter: RunExporter, tmp_path: Path):
    folders = FORMATS["folders"]
    report = exporter.write(folders, tmp_path / "sorted", ALL)
    assert (report.details["images"], report.details["clusters"], report.left_out["excluded"]) == (11, 3, 1)
    assert "1 excluded" in report.text
    assert sorted(file.name for file in (tmp_path / "sorted" / "00-cats _b_").iterdir()) == [
        "00000.png", "00002.png", "00003.png",
    ]  # fmt: skip
    copies = ExportOptions(links="copy")
    with pytest.raises(UsageError, match="not empty"):
        exporter.write(folders, tmp_path / "sorted", copies)
    with pytest.raises(UsageError, match="original images"):
        exporter.write(folders, tmp_path / "set" / "sorted", copies)


def test_write_never_overwrites(exporter: RunExporter, tmp_path: Path):
    exporter.write(FORMATS["labels"], tmp_path / "labels.csv", ALL)
    assert (tmp_path / "labels.csv").read_text() == "path,label\na/00000.png,'=cmd()\n"
    with pytest.raises(UsageError, match="exists already"):
        exporter.write(FORMATS["labels"], tmp_path / "labels.csv", ALL)
    with pytest.raises(CrlcError, match="no folder"):
        exporter.write(FORMATS["labels"], tmp_path / "nowhere" / "labels.csv", ALL)


def test_resolve_destination_adds_the_default_file_name_to_a_folder(exporter: RunExporter, tmp_path: Path):
    csv = FORMATS["csv"]
    RunStore(exporter.workspace).rename(exporter.run, "Café: part 1/2 ")
    assert exporter.build_default_file_name(csv) == "set-Café-part-1-2.csv"
    assert exporter.build_default_file_name(FORMATS["labels"]) == "set-labels.csv"
    assert resolve_destination(str(tmp_path), "tiny-run.csv", csv) == tmp_path / "tiny-run.csv"
    assert resolve_destination(f" {tmp_path}/x.CSV ", "tiny-run.csv", csv) == tmp_path / "x.CSV"
    assert resolve_destination(f"'{tmp_path}/x.csv' ", "tiny-run.csv", csv) == tmp_path / "x.csv"
    assert resolve_destination(f"file://{tmp_path}/x%20y.csv", "tiny-run.csv", csv) == tmp_path / "x y.csv"
    for wrong, fact in (("", "empty"), ("a.csv", "a.csv"), (f"{tmp_path}/a.txt", r"\.csv")):
        with pytest.raises(UsageError, match=fact):
            resolve_destination(wrong, "x.csv", csv)


def test_find_format_uses_the_suffix():
    assert find_format(Path("a.CSV")) is FORMATS["csv"]
    assert find_format(Path("a.html")) is FORMATS["html"]
    with pytest.raises(UsageError, match=r"a\.txt"):
        find_format(Path("a.txt"))


def test_export_options_refuse_unknown_values():
    with pytest.raises(NotFoundError, match="'other'"):
        ExportOptions("other")
    with pytest.raises(UsageError, match="'hard'"):
        ExportOptions(links="hard")


@pytest.mark.parametrize("key", ["imagefolder", "fiftyone", "label-studio", "coco"])
def test_formats_of_other_tools_count_the_images_and_explain_how_to_load_them(
    exporter: RunExporter, tmp_path: Path, key: str
):
    path = tmp_path / f"out{FORMATS[key].suffix}"
    report = exporter.write(FORMATS[key], path, ALL)
    assert (report.details["images"], report.left_out["excluded"]) == (11, 1)
    assert "11" in report.text
    assert str(path) in FORMATS[key].instructions(exporter, str(path))
    assert exporter.preview(FORMATS[key], ALL) is None
    with pytest.raises(UsageError):
        exporter.write(FORMATS[key], path, ALL)


def test_provisional_clusters_are_exported_without_confidence(workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    with pytest.raises(NotFoundError, match="no provisional clusters"):
        ProvisionalExporter(workspace, dataset)
    write_exploration(dataset)
    with AnnotationStore(dataset) as annotations:
        annotations.label([2], "cats")
    exporter = ProvisionalExporter(workspace, dataset)
    exporter.write(FORMATS["csv"], tmp_path / "all.csv", ALL)
    rows = list(read_assignments(tmp_path / "all.csv"))
    assert [row.cluster for row in rows] == CLUSTERS
    assert {(row.confidence, row.second_cluster, row.run) for row in rows} == {(None, None, "provisional")}
    assert [row.label for row in rows[:2]] == [None, "cats"]
    assert [(row.map_x, row.map_y) for row in rows] == [tuple(point) for point in COORDINATES.tolist()]
    report = exporter.write(FORMATS["folders"], tmp_path / "sorted", ALL)
    assert report.details["clusters"] == 3
    exporter.write(FORMATS["html"], tmp_path / "map.html", ALL)
    with pytest.raises(UsageError, match="tsne"):
        exporter.write(FORMATS["csv"], tmp_path / "other.csv", ExportOptions("tsne"))
    for key in ("model", "onnx"):
        assert key not in PROVISIONAL_FORMATS
        with pytest.raises(UsageError, match="provisional"):
            exporter.write(FORMATS[key], tmp_path / f"file.{key}", ALL)
        assert not (tmp_path / f"file.{key}").exists()


def test_export_command_of_provisional_clusters(crlc, workspace: Workspace, tmp_path: Path):
    write_exploration(import_tiny_dataset(workspace, tmp_path / "set"))
    assert crlc("export", "set", "--provisional", "--absolute-paths", "--out", tmp_path / "all.parquet").code == 0
    paths = pyarrow.parquet.read_table(tmp_path / "all.parquet")["absolute_path"].to_pylist()
    assert paths[0] == str(tmp_path / "set" / "a" / "00000.png")
    assert crlc("export", "set", "--provisional", "--model", tmp_path / "m.crlc").code == 2
