"""Commands label and clusters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import change_content, write_handmade_dataset, write_handmade_run

FOUND = [0, 0, 0, 0, 1, 1, 2, 2]


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, [f"pets/{number}.png" for number in range(1, 10)], name="pets")


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    z = np.array([[0, 1], [0, 1.1], [0, 0.9], [5, 0], [1, 1], [1, 2], [2, 1], [2, 2]], np.float32)
    return write_handmade_run(workspace, dataset, FOUND, 3, z)


def test_label_prints_text(crlc, dataset: ImageDataset, tmp_path: Path):
    assert "crlc label pets set" in crlc("label", "pets", "list").out
    assert crlc("label", "pets", "set", "cat", "pets/1.png", "2").out == "Done: label 2 images 'cat'.\n"
    assert "Nothing to change" in crlc("label", "pets", "set", "cat", "2").out
    crlc("label", "pets", "set", "dog", "pets/3.png")
    crlc("label", "pets", "exclude", "4", "5")
    crlc("label", "pets", "include", "5")
    change_content(dataset, 2)
    assert crlc("label", "pets", "list").out.splitlines()[:3] == ["label  images", "cat         2", "dog         1"]
    listed = crlc("label", "pets", "list", "--json").json
    assert (listed["excluded"], listed["stale"]) == (1, [2])
    assert crlc("label", "pets", "list", "cat").out.splitlines()[:2] == ["       1  pets/1.png", "       2  pets/2.png"]
    out = tmp_path / "labels.csv"
    assert "3 labels" in crlc("label", "pets", "export", out).out
    assert out.read_text().splitlines() == ["path,label", "pets/1.png,cat", "pets/2.png,cat", "pets/3.png,dog"]
    assert crlc("label", "pets", "undo").out == "Undone: include 1 image again.\n"
    assert crlc("label", "pets", "redo").out == "Redone: include 1 image again.\n"
    assert "2 images" in crlc("label", "pets", "clear", "1", "2").out
    out.write_text(out.read_text() + "pets/77.png,cat\n")
    matched, unknown = crlc("label", "pets", "import", out).out.splitlines()
    assert matched == "Images matched: 3, of which 1 already had the label."
    assert unknown == "Lines without a matching image: 1 (pets/77.png)."


@pytest.mark.usefixtures("dataset")
def test_label_prints_json(crlc, tmp_path: Path):
    assert crlc("label", "pets", "set", "cat", "1", "--json").json == {"done": "label 1 image 'cat'"}
    assert crlc("label", "--json", "pets", "set", "cat", "1").json == {"done": None}
    expected = {"dataset": "pets", "labels": {"cat": 1}, "excluded": 0, "stale": []}
    assert crlc("label", "pets", "list", "--json").json == expected
    shown = crlc("label", "pets", "list", "cat", "--json").json
    assert shown["images"] == [{"id": 1, "path": "pets/1.png"}]
    (tmp_path / "in.csv").write_text("path,label\npets/2.png,dog\nx,dog\n")
    report = crlc("label", "pets", "import", tmp_path / "in.csv", "--json").json
    assert report == {
        "matched": 1,
        "changed": 1,
        "unchanged": 0,
        "unknown": 1,
        "first_unknown": ["x"],
        "blank": 0,
    }
    assert crlc("label", "pets", "undo", "--json").json["undone"] == "import the labels of 1 image from in.csv"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["label", "pet", "list"], 1, "'pets'?"),
        (["label", "pets"], 2, "ACTION"),
        (["label", "pets", "explode"], 2, "invalid choice: 'explode'"),
        (["label", "pets", "set", "cat"], 2, "IMAGE"),
        (["label", "pets", "set", "cat", "3.png"], 1, "'pets/3.png'?"),
        (["label", "pets", "set", "cat", "3", "100"], 1, "'100'"),
        (["label", "pets", "set", " ", "1"], 2, "label=' ' is not allowed: it is empty"),
        (["label", "pets", "list", "owl"], 1, "'owl'"),
        (["label", "pets", "undo"], 1, "nothing to undo in pets"),
        (["label", "pets", "redo"], 1, "nothing to redo in pets"),
        (["label", "pets", "import", "nothing.csv"], 1, "nothing.csv"),
        (["label", "pets", "export", "no/such/folder.csv"], 2, "no/such"),
        (["clusters", "run-2"], 1, "'run-1'?"),
        (["clusters", "last", "merge", "1", "1"], 2, "clusters=1, 1"),
        (["clusters", "last", "merge", "1", "7"], 1, "cluster 7 does not exist"),
        (["clusters", "last", "merge", "1"], 2, "at least two are needed"),
        (["clusters", "last", "name", "one", "x"], 2, "invalid int value: 'one'"),
        (["clusters", "last", "name", "1", "a\nb"], 2, "control characters"),
        (["clusters", "last", "split", "0", "--into", "1"], 2, "parts=1"),
        (["clusters", "last", "split", "0", "--into", "5"], 2, "parts=5"),
        (["clusters", "last", "split", "9"], 1, "cluster 9 does not exist"),
        (["clusters", "last", "move", "0", "9"], 1, "has no image with id 9"),
        (["clusters", "last", "move", "5", "1"], 1, "cluster 5 does not exist"),
        (["clusters", "last", "undo"], 1, "nothing to undo in pets"),
    ],
)
@pytest.mark.usefixtures("run")
def test_label_and_clusters_reject_wrong_arguments(crlc, dataset: ImageDataset, arguments, code: int, words: str):
    outcome = crlc(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    (line,) = outcome.err.splitlines()
    assert words in line
    assert not list(dataset.folder.glob("annotations*"))


@pytest.mark.usefixtures("dataset")
def test_label_export_does_not_overwrite(crlc, tmp_path: Path):
    (tmp_path / "there.csv").write_text("mine")
    assert "exists already" in crlc("label", "pets", "export", tmp_path / "there.csv").err
    assert (tmp_path / "there.csv").read_text() == "mine"


@pytest.mark.usefixtures("run")
def test_clusters_level_lists_levels_and_merges_clusters(crlc):
    # Eight images are too few to divide a cluster, and all are neighbours: any two clusters may be merged.
    listed = crlc("clusters", "last", "level", "--json").json
    (coarse, current), ((one, two),) = listed["levels"], listed["levels"][0]["merged"]
    assert (coarse["level"], coarse["parts"]) == (2, {})
    assert (current["level"], current["merged"], current["parts"]) == (listed["current"], [], {}) == (3, [], {})
    assert coarse["information"] < current["information"]
    lines = crlc("clusters", "last", "level").out.splitlines()
    assert [line.split()[0] for line in lines] == ["clusters", "2", "3"]
    assert (lines[1].endswith(f"{one} + {two}"), lines[2].endswith("current clusters")) == (True, True)
    wrong = crlc("clusters", "last", "level", "4")
    assert (wrong.code, wrong.err.splitlines()[-1].endswith("must be from 2 to 3.")) == (2, True)
    assert crlc("clusters", "last", "level", "2").out == "Done: use 2 clusters instead of 3.\n"
    sizes = {0: 4, 1: 2, 2: 2}
    sizes[one] += sizes.pop(two)
    left = [line.split()[:2] for line in crlc("clusters", "last").out.splitlines()[1:]]
    assert left == [[str(number), str(size)] for number, size in sizes.items()]
    assert "Nothing to change" in crlc("clusters", "last", "level", "2").out
    crlc("clusters", "last", "undo")
    assert len(crlc("clusters", "last").out.splitlines()) == 4


def test_clusters_prints_text(crlc, run: RunFolder):
    assert crlc("clusters", run.id).out.splitlines() == [
        "cluster  images  confidence  name",
        "      0       4       0.025",
        "      1       2       0.055",
        "      2       2       0.075",
    ]
    assert crlc("clusters", "last", "name", "1", "small dogs").out == "Done: name cluster 1 'small dogs'.\n"
    assert crlc("clusters", "last", "merge", "2", "1").out == "Done: merge 1 small dogs and cluster 2.\n"
    assert crlc("clusters", "last", "split", "0", "--into", "2").out == "Done: split cluster 0 into 0 and 3.\n"
    assert crlc("clusters", "last", "move", "3", "pets/5.png").out == "Done: move 1 image to cluster 3.\n"
    assert crlc("clusters", "last").out.splitlines()[:4] == [
        "cluster  images  confidence  name",
        "      0       3       0.020",
        "      1       3       0.070  small dogs",
        "      3       2       0.045",
    ]
    assert crlc("clusters", "last", "undo").out == "Undone: move 1 image to cluster 3.\n"
    assert crlc("clusters", "last", "redo").out == "Redone: move 1 image to cluster 3.\n"
    assert crlc("clusters", "last", "unname", "1").out == "Done: remove the name of 1 small dogs.\n"
    crlc("label", "pets", "set", "cat", "1")
    assert "does not edit the clusters of run-1: label 1 image 'cat'" in crlc("clusters", "last", "undo").err


def test_clusters_prints_json(crlc, run: RunFolder, workspace: Workspace, dataset: ImageDataset):
    crlc("clusters", run.id, "name", "2", "cats", "--json")
    content = crlc("clusters", "last", "--json").json
    assert content["run"] == "run-1"
    assert [(row["cluster"], row["images"], row["name"]) for row in content["clusters"]] == [
        (0, 4, None),
        (1, 2, None),
        (2, 2, "cats"),
    ]
    assert not content["edits_of_an_earlier_result"]
    write_handmade_run(workspace, dataset, [1, *FOUND[1:]], 3)  # a newer result has other clusters
    later = crlc("clusters", "last", "--json").json
    assert later["clusters"][2]["name"] is None
    assert later["edits_of_an_earlier_result"]
    assert "earlier result" in crlc("clusters", "last").out


@pytest.mark.usefixtures("run")
def test_clusters_counts_excluded_images(crlc):
    assert "Excluded" not in crlc("clusters", "last").out
    crlc("label", "pets", "exclude", 1, 2)
    assert re.search(r"Excluded.* 2\.", crlc("clusters", "last").out)


def test_clusters_reports_a_missing_result(crlc, workspace: Workspace, dataset: ImageDataset):
    run = RunFolder(workspace.root / "runs" / "new")
    run.write_metadata({"dataset": "pets", "dataset_uid": dataset.info.uid, "manifest_version": 1, "settings": {}})
    assert "no result" in crlc("clusters", "new").err


def test_label_reports_damaged_annotations(crlc, dataset: ImageDataset):
    (dataset.folder / "annotations.sqlite").write_text("not a database at all")
    outcome = crlc("label", "pets", "list")
    assert outcome.code == 1
    assert "annotations.sqlite" in outcome.err
    assert len(outcome.err.splitlines()) == 1
