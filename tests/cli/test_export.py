"""Command export, and assign with an exported model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.export_run import make_run
from tests.fixtures.exported_tables import read_assignments
from tests.fixtures.handmade_dataset import write_handmade_dataset
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import import_tiny_dataset, write_exploration, write_tiny_run

FAST = ("--epochs", 2, "--set", "subheads=2", "--set", "batch_size=64")


def test_export_model_assigns_the_same_clusters_as_its_run(crlc, small_set: Path, tmp_path: Path, workspace: Workspace):
    assert crlc("train", small_set, "--clusters", 3, *FAST).code == 0
    crlc("clusters", "last", "name", 0, "bars")
    crlc("clusters", "last", "merge", 0, 2)
    file = tmp_path / "model.crlc"
    outcome = crlc("export", "last", "--model", file)
    assert f"crlc assign {file} PATH" in outcome.out
    assert "exists already" in crlc("export", "last", "--model", file).err
    save_images(tmp_path / "new", 5)
    by_run = crlc("assign", "last", tmp_path / "new", "--json").json
    outcome = crlc("export", "last", "--out", tmp_path / "model.onnx")
    assert f"{tmp_path}/model.py IMAGES" in outcome.out
    assert list_clusters_of_script(tmp_path / "model.py", tmp_path / "new") == {
        row["path"]: row["name"] or f"cluster {row['cluster']}" for row in by_run["images"]
    }
    (tmp_path / "model.onnx").unlink()
    assert f"{tmp_path}/model.py exists already" in crlc("export", "last", "--out", tmp_path / "model.onnx").err
    assert not (tmp_path / "model.onnx").exists()
    shutil.rmtree(workspace.root)
    by_model = crlc("assign", file, tmp_path / "new", "--json").json
    assert by_model == by_run
    assert {(row["cluster"], row["name"]) for row in by_run["images"]} <= {(0, "bars"), (1, None)}
    written = crlc("assign", file, tmp_path / "new", "--out", tmp_path / "out.csv")
    assert "5 images assigned" in written.out
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "path,cluster,confidence,cluster_name"
    assert "is not a model of CRLC Studio" in crlc("assign", small_set, tmp_path / "new").err
    assert "No run is named 'nothing.crlc'" in crlc("assign", "nothing.crlc", tmp_path / "new").err


def list_clusters_of_script(script: Path, images: Path) -> dict[str, str]:
    """Run the exported script from another folder; return the name of the cluster of each image by file name."""
    command = [sys.executable, str(script), *map(str, sorted(images.iterdir()))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd=images).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return {Path(path).name: name for path, name, _ in rows}


@pytest.fixture
def run(workspace: Workspace) -> str:
    dataset = write_handmade_dataset(
        workspace.root, ["a.png", "b.png", "c.png"], location=str(workspace.root / "originals")
    )
    return make_run(workspace, dataset, np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], np.float32)).id


def test_export_tables_with_and_without_the_columns_of_the_dataset(crlc, run: str, tmp_path: Path):
    crlc("export", run, "--out", tmp_path / "all.csv")
    crlc("export", run, "--out", tmp_path / "few.csv", "--no-columns")
    headers = [(tmp_path / name).read_text().splitlines()[0].split(",") for name in ("all.csv", "few.csv")]
    assert headers[0] == [*headers[1], "width", "height", "file_size", "file_date"]
    assert "only for tables" in crlc("export", run, "--out", tmp_path / "out.html", "--no-columns").err


def test_export_tables_with_and_without_a_map(crlc, run: str, tmp_path: Path, workspace: Workspace):
    outcome = crlc("export", run, "--out", tmp_path / "out.csv")
    assert "3 images" in outcome.out
    assert "--map umap" in outcome.out
    assert [row.map_x for row in read_assignments(tmp_path / "out.csv")] == [None] * 3
    content = crlc("export", run, "--out", tmp_path / "out.parquet", "--map", "pca", "--json").json
    assert content == {
        "run": run, "written": str(tmp_path / "out.parquet"), "images": 3, "not_assigned": 0, "map": True
    }  # fmt: skip
    rows = list(read_assignments(tmp_path / "out.parquet"))
    assert [(row.path, row.cluster) for row in rows] == [("a.png", 0), ("b.png", 1), ("c.png", 0)]
    assert all(row.map_x is not None for row in rows)
    assert "--map" not in crlc("export", run, "--out", tmp_path / "again.csv").out  # the run has a map now
    assert "3 images" in crlc("export", run, "--out", tmp_path / "map.html").out
    assert RunStore(workspace).open(run).path.joinpath("maps").is_dir()


def test_export_creates_folders_of_links_or_copies(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    run = make_run(workspace, workspace.open_dataset("set"), np.eye(2, dtype=np.float32)).id
    assert "2 links in 2 folders" in crlc("export", run, "--links", tmp_path / "links").out
    assert crlc("export", run, "--links", tmp_path / "copies", "--copy", "--json").json["images"] == 2
    assert (tmp_path / "links" / "00" / "00000.png").is_symlink()
    assert not (tmp_path / "copies" / "00" / "00000.png").is_symlink()
    assert "is not empty" in crlc("export", run, "--links", tmp_path / "links").err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run-1"], 2, "one of the arguments --out --model --links --vectors is required"),
        (["run-1", "--out", "a.csv", "--model", "b"], 2, "not allowed with argument"),
        (["run-1", "--out", "a.txt"], 2, "a.txt"),
        (["run-1", "--out", "a.csv", "--copy"], 2, "--copy"),
        (["run-1", "--links", "a", "--copy", "--relative"], 2, "--relative"),
        (["run-1", "--model", "a", "--map", "pca"], 2, "--map"),
        (["run-1", "--out", "no/a.csv"], 2, "no folder no"),
        (["run-1", "--out", "no/a.html"], 2, "no folder no"),
        (["run-1", "--links", "a", "--format", "coco"], 2, "--format"),
        (["run-1", "--out", "a.json", "--format", "coco", "--relative"], 2, "--relative"),
        (["run-1", "--out", "a", "--format", "imagefolder", "--map", "pca"], 2, "--map"),
        (["run-1", "--links", "a", "--no-columns"], 2, "--no-columns"),
        (["run-1", "--out", "a.onnx"], 1, "checkpoint"),
        (["run-1", "--links", "a"], 1, "originals"),
        (["run-1", "--model", "a"], 1, "checkpoint"),
        (["rum-1", "--out", "a.csv"], 1, "'run-1'?"),
    ],
)
@pytest.mark.usefixtures("run")
def test_export_rejects_wrong_arguments_and_writes_nothing(
    crlc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
):
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    outcome = crlc("export", *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert list(current.iterdir()) == []


def test_export_formats_of_other_tools(crlc, tmp_path: Path, workspace: Workspace):
    write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    outcome = crlc("export", "last", "--out", tmp_path / "folder", "--format", "imagefolder", "--relative")
    assert "12 links" in outcome.out
    assert f"data_dir='{tmp_path}/folder'" in outcome.out
    assert crlc("export", "last", "--out", tmp_path / "fo", "--format", "fiftyone", "--copy", "--json").json[
        "images"
    ] == 12  # fmt: skip
    assert crlc("export", "last", "--out", tmp_path / "a.json", "--format", "coco", "--no-columns").code == 0
    assert '"sharpness"' not in (tmp_path / "a.json").read_text()
    outcome = crlc("export", "last", "--out", tmp_path / "b.json", "--format", "label-studio")
    assert f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={tmp_path}\n" in outcome.out
    write_exploration(workspace.open_dataset("set"))
    assert crlc("export", "set", "--provisional", "--out", tmp_path / "c.json", "--format", "coco").code == 0
    assert "ONNX" in crlc("export", "set", "--provisional", "--out", tmp_path / "c.onnx").err


def test_export_refuses_a_missing_or_damaged_result(crlc, run: str, tmp_path: Path, workspace: Workspace):
    (RunStore(workspace).open(run).path / "result.json").unlink()
    for arguments in (("--out", tmp_path / "a.csv"), ("--out", tmp_path / "a.html"), ("--links", tmp_path / "a")):
        assert "no result" in crlc("export", run, *arguments).err
    (RunStore(workspace).open(run).path / "result.json").write_text('{"kind": "cake"}')
    assert "is not a result file" in crlc("export", run, "--out", tmp_path / "a.csv").err


def test_export_tables_without_excluded_images(crlc, workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    assert crlc("label", "set", "exclude", 1, 2).code == 0
    assert crlc("export", "last", "--out", tmp_path / "all.csv", "--json").json["images"] == 12
    assert crlc("export", "last", "--out", tmp_path / "few.csv", "--without-excluded", "--json").json["images"] == 10
    assert [row.image_id for row in read_assignments(tmp_path / "few.csv")] == list(range(3, 13))
    outcome = crlc("export", "last", "--links", tmp_path / "links", "--without-excluded")
    assert (outcome.code, "--without-excluded" in outcome.err) == (2, True)
