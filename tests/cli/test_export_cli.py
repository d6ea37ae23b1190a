"""`crlc export`, and `crlc assign` with an exported model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from crlc.workspace import Workspace
from crlc.workspace.export.tables import read_assignments
from crlc.workspace.runs import Runs
from tests.app.tiny_run import tiny_dataset, tiny_run
from tests.pictures import save_pictures
from tests.workspace.handmade import handmade_dataset
from tests.workspace.test_export_rows import make_run

FAST = ("--epochs", 2, "--set", "subheads=2", "--set", "batch_size=64")


def test_a_model_does_what_its_run_does(crlc, small_set: Path, tmp_path: Path, workspace: Workspace):
    assert crlc("train", small_set, "--clusters", 3, *FAST).code == 0
    crlc("clusters", "last", "name", 0, "bars")
    crlc("clusters", "last", "merge", 0, 2)
    file = tmp_path / "model.crlc"
    outcome = crlc("export", "last", "--model", file)
    assert f"Use it with: crlc assign {file} PATH" in outcome.out
    assert "exists already" in crlc("export", "last", "--model", file).err
    save_pictures(tmp_path / "new", 5)
    by_run = crlc("assign", "last", tmp_path / "new", "--json").json
    shutil.rmtree(workspace.root)
    by_model = crlc("assign", file, tmp_path / "new", "--json").json
    assert by_model == by_run
    assert {(row["cluster"], row["name"]) for row in by_run["images"]} <= {(0, "bars"), (1, None)}
    written = crlc("assign", file, tmp_path / "new", "--out", tmp_path / "out.csv")
    assert "5 images assigned" in written.out
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "path,cluster,confidence,cluster_name"
    assert "is not a model of CRLC Studio" in crlc("assign", small_set, tmp_path / "new").err
    assert "Nor is there a model file of that name" in crlc("assign", "nothing.crlc", tmp_path / "new").err


@pytest.fixture
def run(workspace: Workspace) -> str:
    dataset = handmade_dataset(workspace.root, ["a.png", "b.png", "c.png"], location=str(workspace.root / "originals"))
    return make_run(workspace, dataset, np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], np.float32)).id


def test_tables_with_and_without_a_map(crlc, run: str, tmp_path: Path, workspace: Workspace):
    outcome = crlc("export", run, "--out", tmp_path / "out.csv")
    assert "Wrote 3 images" in outcome.out
    assert "add --map umap to compute one" in outcome.out
    assert [row.map_x for row in read_assignments(tmp_path / "out.csv")] == [None] * 3
    content = crlc("export", run, "--out", tmp_path / "out.parquet", "--map", "pca", "--json").json
    assert content == {
        "run": run, "written": str(tmp_path / "out.parquet"), "images": 3, "not_assigned": 0, "map": True
    }  # fmt: skip
    rows = list(read_assignments(tmp_path / "out.parquet"))
    assert [(row.path, row.cluster) for row in rows] == [("a.png", 0), ("b.png", 1), ("c.png", 0)]
    assert all(row.map_x is not None for row in rows)
    assert "add --map" not in crlc("export", run, "--out", tmp_path / "again.csv").out  # it is there now
    assert "Wrote a map of 3 images" in crlc("export", run, "--out", tmp_path / "map.html").out
    assert Runs(workspace).open(run).path.joinpath("maps").is_dir()


def test_links(crlc, tmp_path: Path, workspace: Workspace):
    save_pictures(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    run = make_run(workspace, workspace.dataset("set"), np.eye(2, dtype=np.float32)).id
    assert "Made 2 links in 2 folders" in crlc("export", run, "--links", tmp_path / "links").out
    assert crlc("export", run, "--links", tmp_path / "copies", "--copy", "--json").json["images"] == 2
    assert (tmp_path / "links" / "00" / "00000.png").is_symlink()
    assert not (tmp_path / "copies" / "00" / "00000.png").is_symlink()
    assert "is not empty" in crlc("export", run, "--links", tmp_path / "links").err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run-1"], 2, "one of the arguments --out --model --links is required"),
        (["run-1", "--out", "a.csv", "--model", "b"], 2, "not allowed with argument"),
        (["run-1", "--out", "a.txt"], 2, "its ending says what is written"),
        (["run-1", "--out", "a.csv", "--copy"], 2, "--copy is only for --links"),
        (["run-1", "--links", "a", "--copy", "--relative"], 2, "Choose one"),
        (["run-1", "--model", "a", "--map", "pca"], 2, "--map is only for --out"),
        (["run-1", "--out", "no/a.csv"], 2, "there is no folder no"),
        (["run-1", "--out", "no/a.html"], 2, "there is no folder no"),
        (["run-1", "--links", "a"], 1, "originals does not exist"),
        (["run-1", "--model", "a"], 1, "has no checkpoint yet"),
        (["rum-1", "--out", "a.csv"], 1, "Did you mean 'run-1'?"),
    ],
)
@pytest.mark.usefixtures("run")
def test_wrong_calls_change_nothing(
    crlc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
):
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    outcome = crlc("export", *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert list(place.iterdir()) == []


def test_a_run_without_a_result(crlc, run: str, tmp_path: Path, workspace: Workspace):
    (Runs(workspace).open(run).path / "result.json").unlink()
    for arguments in (("--out", tmp_path / "a.csv"), ("--out", tmp_path / "a.html"), ("--links", tmp_path / "a")):
        assert "has no result yet" in crlc("export", run, *arguments).err
    (Runs(workspace).open(run).path / "result.json").write_text('{"kind": "cake"}')
    assert "is not a result file of CRLC Studio" in crlc("export", run, "--out", tmp_path / "a.csv").err


def test_excluded_images_can_be_left_out_of_tables(crlc, workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    tiny_run(workspace, dataset)
    assert crlc("label", "set", "exclude", 1, 2).code == 0
    assert crlc("export", "last", "--out", tmp_path / "all.csv", "--json").json["images"] == 12
    assert crlc("export", "last", "--out", tmp_path / "few.csv", "--without-excluded", "--json").json["images"] == 10
    assert [row.image_id for row in read_assignments(tmp_path / "few.csv")] == list(range(3, 13))
    said = crlc("export", "last", "--links", tmp_path / "links", "--without-excluded")
    assert (said.code, "only for tables" in said.err) == (2, True)
