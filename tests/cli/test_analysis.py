"""Commands neighbours, map, quality, compare, suggest, duplicates, outliers and explore."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from crlc.analysis.label_suggestions import REPRESENTATIVE
from crlc.cli.columns import format_image_quality
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.data.manifest import Manifest
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import write_handmade_dataset
from tests.fixtures.handmade_run import compute_cosine, write_handmade_result
from tests.fixtures.images import save_images


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    """Return a dataset of seven images: the first two are cats, the others are dogs."""
    dataset = write_handmade_dataset(workspace.root, [f"pets/{number}.png" for number in range(1, 8)], name="pets")
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET class = CASE WHEN id <= 2 THEN 'cat' ELSE 'dog' END")
    return dataset


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    """Return a run with the images 1 to 6 on a circle at 0, 10, 25, 90, 100 and 120 degrees."""
    return write_handmade_result(workspace, dataset)


@pytest.mark.usefixtures("run")
def test_neighbours_prints_text_and_json(crlc):
    assert crlc("neighbours", "run-1", "pets/1.png", "-k", 3).out.splitlines() == [
        "id  similarity  confidence  cluster  class  path",
        " 2       0.985       0.800        0  cat    pets/2.png",
        " 3       0.906       0.600        0  dog    pets/3.png",
        " 4       0.000       0.900        1  dog    pets/4.png",
    ]
    content = crlc("neighbours", "last", "1", "pets/2.png", "-k", 1, "--json").json
    assert content == {
        "run": "run-1",
        "images": [{"id": 1, "path": "pets/1.png"}, {"id": 2, "path": "pets/2.png"}],
        "exact": True,
        "recall": 1.0,
        "neighbours": [
            {
                "id": 3,
                "path": "pets/3.png",
                "s": pytest.approx(compute_cosine(20)),
                "p": 0.6,
                "cluster": 0,
                "class": "dog",
            }
        ],
    }


@pytest.mark.usefixtures("run")
def test_quality_prints_text_and_json(crlc):
    crlc("clusters", "last", "name", 1, "north")
    lines = crlc("quality", "last").out.splitlines()
    assert lines[0].split() == [
        *("cluster", "images", "confidence", "neighbours", "silhouette", "subheads", "closest", "overlap")
    ]
    assert lines[1].split()[:4] == ["0", "3", "0.767", "0.400"]
    assert lines[2].split()[:5] == ["1", "north", "3", "0.800", "0.400"]
    assert lines[3].startswith("run-1: 6 images in 2 clusters")
    assert "50%" in lines[3]
    assert "import the dataset again" in lines[5]  # the images were never decoded
    assert "6 images: ACC 83.3%, NMI" in lines[6]
    assert lines[8].split() == ["cat", "2", "1.000", "0", "-"]
    assert lines[9].split() == ["dog", "4", "0.750", "1", "1", "in", "0"]
    content = crlc("quality", "last", "--json").json
    assert content["summary"]["images"] == 6
    assert content["summary"]["neighbour_agreement"] == pytest.approx(0.4)
    assert content["summary"]["subhead_agreement"] is None
    assert content["clusters"][1]["name"] == "north"
    assert content["clusters"][1]["confidence"] == pytest.approx(0.8)
    assert content["clusters"][0]["closest"] == 1
    assert content["classes"]["acc"] == pytest.approx(5 / 6, abs=1e-6)
    assert content["classes"]["confusion"] == [[2, 0], [1, 3]]
    assert content["classes"]["classes"][1] == {"class": "dog", "images": 4, "accuracy": 0.75, "cluster": 1}


def add_pixel_values(dataset: ImageDataset) -> None:
    """Store pixel values of images 1 to 5: good, blurred, dark, uniform and blurred."""
    values = [(1, 50, 20, 1.2), (2, 50, 20, 0.1), (3, 5, 4, 1.0), (4, 90, 1, 0.0), (5, 90, 20, 0.12)]
    with Manifest(dataset.folder, create=True) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "INSERT INTO photo_values (id, brightness, contrast, sharpness) VALUES (?, ?, ?, ?)", values
        )


@pytest.mark.usefixtures("run")
def test_quality_lists_blurred_dark_and_uniform_images(crlc, dataset: ImageDataset):
    add_pixel_values(dataset)
    assert "2 blurred, 1 dark, 1 uniform of 5 images" in crlc("quality", "last").out
    content = crlc("quality", "last", "--json").json
    assert content["image_quality"] == {"blurred": 2, "dark": 1, "good": 1, "uniform": 1}
    paths = {record.id: record.path for record in read_records(dataset, np.arange(1, 7)).values()}
    assert content["flagged_images"] == {"blurred": [paths[2], paths[5]], "dark": [paths[3]], "uniform": [paths[4]]}
    lines = crlc("quality", "last").out.splitlines()
    assert [line for line in lines if line.startswith("  blurred: ")] == [f"  blurred: {paths[n]}" for n in (2, 5)]
    assert f"  uniform: {paths[4]}" in lines
    assert any("--json" in line and "--images" in line for line in lines)


def test_quality_of_a_dataset_lists_its_flagged_images_without_excluded_ones(crlc, dataset: ImageDataset):
    assert "not known" in crlc("quality", "pets").out
    add_pixel_values(dataset)
    crlc("label", "pets", "exclude", 5)
    content = crlc("quality", "pets", "--json").json
    paths = {record.id: record.path for record in read_records(dataset, np.arange(1, 7)).values()}
    assert content == {
        "dataset": "pets",
        "image_quality": {"blurred": 1, "dark": 1, "good": 1, "uniform": 1},
        "flagged_images": {"blurred": [paths[2]], "dark": [paths[3]], "uniform": [paths[4]]},
    }
    lines = crlc("quality", "pets").out.splitlines()
    assert lines[0] == "Image quality: 1 blurred, 1 dark, 1 uniform of 4 images."
    assert {f"  blurred: {paths[2]}", f"  dark: {paths[3]}", f"  uniform: {paths[4]}"} < set(lines)
    assert "--images" not in lines[-1]
    refused = crlc("quality", "pets", "--images", "images.csv")
    assert (refused.code, "--images" in refused.err) == (2, True)


def test_dataset_lists_every_value_of_the_image_quality(crlc, dataset: ImageDataset):
    add_pixel_values(dataset)
    (line,) = [line for line in crlc("dataset", "pets").out.splitlines() if line.split()[:1] == ["quality"]]
    assert all(f"{name} (" in line for name in ("blurred", "dark", "good", "uniform"))


def test_image_quality_names_the_first_images_of_each_kind():
    flagged = {"blurred": [f"{number}.png" for number in range(7)], "dark": [], "uniform": ["u.png"]}
    lines = format_image_quality({"blurred": 7, "dark": 0, "good": 1, "uniform": 1}, flagged)
    assert lines[1:-1] == [
        *(f"  blurred: {number}.png" for number in range(5)), "  blurred: and 2 more images", "  uniform: u.png"
    ]  # fmt: skip
    assert format_image_quality({"blurred": 0, "dark": 0, "good": 3, "uniform": 0}, {"blurred": []}) == [
        "Image quality: none blurred, dark or uniform of 3 images."
    ]


@pytest.mark.usefixtures("run")
def test_quality_writes_the_flags_of_images(crlc, dataset: ImageDataset, tmp_path: Path):
    add_pixel_values(dataset)
    file = tmp_path / "images.csv"
    assert crlc("quality", "last", "--images", file).code == 0
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    flags = [row["image_quality"] for row in rows]
    assert flags == ["good", "blurred", "dark", "uniform", "blurred", ""]
    assert (rows[0]["sharpness"], rows[5]["brightness"]) == ("1.2", "")


@pytest.mark.usefixtures("run")
def test_quality_writes_a_table_of_images(crlc, tmp_path: Path):
    crlc("clusters", "last", "name", 1, "=north")
    crlc("label", "pets", "exclude", 2)
    file = tmp_path / "images.csv"
    assert "5 images" in crlc("quality", "last", "--images", file).out
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["image_id"] for row in rows] == ["1", "3", "4", "5", "6"]
    assert [row["path"] for row in rows] == [f"pets/{number}.png" for number in (1, 3, 4, 5, 6)]
    assert [row["cluster_name"] for row in rows] == ["", "", "'=north", "'=north", "'=north"]
    assert float(rows[1]["confidence"]) == pytest.approx(0.6)
    assert float(rows[1]["margin"]) == pytest.approx(0.2)
    # The four others are neighbours of image 1 (0 degrees); one of them, at 25 degrees, is in its cluster.
    assert float(rows[0]["neighbour_agreement"]) == pytest.approx(1 / 4)
    assert float(rows[0]["typicality"]) == pytest.approx(compute_cosine(25) / 4, abs=1e-6)
    assert rows[0]["subhead_agreement"] == ""
    assert "exists already" in crlc("quality", "last", "--images", file).err
    assert ".csv" in crlc("quality", "last", "--images", tmp_path / "images.txt").err
    assert "no folder" in crlc("quality", "last", "--images", tmp_path / "no" / "images.csv").err


def test_quality_shows_no_values_for_an_empty_cluster(crlc, workspace: Workspace, dataset: ImageDataset):
    write_handmade_result(workspace, dataset, count=3)
    crlc("label", "pets", "exclude", 3)
    content = crlc("quality", "last", "--json").json
    assert content["clusters"][2]["images"] == 0
    assert content["clusters"][2]["confidence"] is None
    assert content["clusters"][2]["closest"] is None
    shown = crlc("quality", "last").out
    assert "1 excluded" in shown
    assert crlc("suggest", "last").code == 0
    assert crlc("clusters", "last", "merge", 0, 1).code == 0
    assert "edited" in crlc("quality", "last").out
    assert [one["cluster"] for one in crlc("quality", "last", "--json").json["clusters"]] == [0, 2]


@pytest.mark.usefixtures("run")
def test_map_prints_text_and_json(crlc):
    shown = crlc("map", "last", "--method", "pca")
    assert shown.out.startswith("pca map of 6 images in ")
    crlc("label", "pets", "exclude", 2)
    content = crlc("map", "last", "--method", "pca", "--json").json
    assert [one["id"] for one in content["images"]] == [1, 3, 4, 5, 6]
    stored = np.load(content["file"])
    assert stored.shape == (6, 2)
    assert [content["images"][1]["x"], content["images"][1]["y"]] == pytest.approx(stored[2].tolist(), abs=1e-6)


@pytest.mark.usefixtures("run")
def test_compare_prints_text_and_json(crlc, workspace: Workspace, dataset: ImageDataset):
    write_handmade_result(workspace, dataset, name="run-2", clusters=[1, 1, 0, 0, 0, 0])
    lines = crlc("compare", "run-1", "run-2").out.splitlines()
    assert lines[0] == "Images in both: 6; only in the first: 0; only in the second: 0."
    assert "83.3% of the images are in the matching cluster" in lines[1]
    assert lines[3].split() == ["0", "1", "3", "2", "2", "0.667"]
    assert lines[6:] == ["  0 -> 0  pets/3.png"]
    content = crlc("compare", "run-1", "run-2", "--json").json
    assert content["moved"] == [{"id": 3, "from": 0, "to": 0}]
    assert content["matched"][1] == {
        **{"first": 1, "second": 0, "first_size": 3, "second_size": 4, "common": 3},
        "overlap": 0.75,
    }
    assert crlc("compare", "run-1", "run-1", "--json").json["moved"] == []


@pytest.mark.usefixtures("run")
def test_suggest_prints_text_and_json(crlc):
    crlc("label", "pets", "set", "cat", 1)
    content = crlc("suggest", "last", "-n", 3, "--json").json
    assert set(content) == {"run", "merge", "split", "label"}
    assert len(content["label"]) == 3
    assert content["label"][0]["cluster"] == 1  # cluster 0 has a label already
    assert 1 not in [one["id"] for one in content["label"]]
    assert content["merge"][0]["first_size"] == 3
    shown = crlc("suggest", "last", "-n", 1).out
    assert REPRESENTATIVE in shown
    crlc("label", "pets", "set", "cat", *range(1, 7))
    assert crlc("suggest", "last", "--json").json["label"] == []


def test_duplicates_and_outliers_print_text_and_json(crlc, workspace: Workspace, dataset: ImageDataset):
    z = np.array([[1, 0], [1, 0.001], [0, 1], [0, 1], [0.001, 1], [-1, -1]])
    write_handmade_result(workspace, dataset, z=z)
    lines = crlc("duplicates", "run-1").out.splitlines()
    assert lines[0].startswith("2 groups")
    assert lines[1:] == ["  1.000  pets/3.png, pets/4.png, pets/5.png", "  1.000  pets/1.png, pets/2.png"]
    content = crlc("duplicates", "last", "--alike", 0.9, "--json").json
    assert content["groups"][1]["images"] == [{"id": 1, "path": "pets/1.png"}, {"id": 2, "path": "pets/2.png"}]
    outliers = crlc("outliers", "last", "-n", 1, "--at-least", 0, "--json").json["outliers"]
    assert [(one["id"], one["path"], one["cluster"]) for one in outliers] == [(6, "pets/6.png", 1)]
    assert "pets/6.png" in crlc("outliers", "last", "-n", 1, "--at-least", 0).out
    assert crlc("outliers", "last", "--at-least", 1e6, "--json").json["outliers"] == []


def test_duplicates_of_a_dataset_compares_pixels(crlc, tmp_path: Path):
    files = save_images(tmp_path / "set", 5, width=60, height=60)
    with Image.open(files[1]) as image:
        image.resize((90, 90)).save(tmp_path / "set" / "larger.png")
        ImageEnhance.Brightness(image).enhance(0.97).save(tmp_path / "set" / "zz-darker.jpg", quality=85)
    crlc("import", tmp_path / "set")
    (group,) = crlc("duplicates", "set", "--json").json["groups"]
    assert [one["path"] for one in group["images"]] == ["00001.png", "larger.png", "zz-darker.jpg"]
    crlc("label", "set", "exclude", "larger.png")
    assert "00001.png, zz-darker.jpg" in crlc("duplicates", "set").out
    assert "--alike" in crlc("duplicates", "set", "--alike", 0.9).err
    assert "0 to 4" in crlc("duplicates", "set", "--bits", 9).err
    crlc("label", "set", "exclude", *range(1, 8))
    assert "excluded" in crlc("duplicates", "set").err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["quality", "run-2"], 1, "'run-2'"),
        (["quality", "rum-1"], 1, "'run-1'?"),
        (["neighbours", "run-1", "pets/1.pgn"], 1, "'pets/1.png'?"),
        (["neighbours", "run-1", "99"], 1, "Ids go up to 7"),
        (["neighbours", "run-1", "7"], 1, "image 7"),
        (["neighbours", "run-1", "1", "-k", "0"], 2, "from 1 to 5"),
        (["neighbours", "run-1", "1", "-k", "6"], 2, "from 1 to 5"),
        (["neighbours", "run-1"], 2, "IMAGE"),
        (["map", "run-1", "--method", "mds"], 2, "invalid choice: 'mds'"),
        (["map", "run-1", "--seed", "-1"], 2, "seed=-1"),
        (["suggest", "run-1", "-n", "0"], 2, "at least 1"),
        (["outliers", "run-1", "-n", "0"], 2, "at least 1"),
        (["duplicates", "pest"], 1, "'pets'?"),
        (["duplicates", "run-1", "--alike", "0"], 2, "above 0"),
        (["duplicates", "run-1", "--bits", "2"], 2, "--bits"),
        (["compare", "run-1"], 2, "RUN"),
        (["explore", "pest"], 1, "'pets'?"),
        (["explore", "pets", "--clusters", "1"], 2, "clusters=1"),
    ],
)
@pytest.mark.usefixtures("run")
def test_analysis_commands_reject_wrong_arguments(crlc, arguments, code: int, words: str):
    outcome = crlc(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert words in line


@pytest.mark.parametrize("command", ["quality", "suggest", "outliers", "duplicates", "map"])
def test_analysis_commands_report_a_damaged_or_missing_result(crlc, run: RunFolder, command: str):
    next(run.path.glob("result-*/z.npy")).write_text("foreign")
    damaged = crlc(command, "run-1")
    assert damaged.code == 1
    assert "The result of the run run-1 cannot be used" in damaged.err
    (run.path / "result.json").unlink()
    outcome = crlc(command, "run-1")
    assert outcome.code == 1
    assert "no result" in outcome.err


@pytest.mark.slow
def test_neighbours_and_map_accept_a_new_image(crlc, small_set: Path, tmp_path: Path):
    crlc("train", small_set, "--epochs", 2, "--set", "subheads=2", "--set", "batch_size=64")
    images = np.load(small_set)["images"]
    Image.fromarray(images[7]).save(tmp_path / "new.png")
    content = crlc("neighbours", "last", tmp_path / "new.png", "-k", 2, "--json").json
    assert content["images"] == [{"id": None, "path": str(tmp_path / "new.png")}]
    assert content["neighbours"][0]["id"] == 8
    assert content["neighbours"][0]["s"] == pytest.approx(1.0, abs=1e-4)
    itself = crlc("neighbours", "last", 8, "-k", 1, "--json").json["neighbours"][0]
    assert content["neighbours"][1]["id"] == itself["id"]
    placed = crlc("map", "last", "--method", "pca", "--place", tmp_path / "new.png", "--json").json
    copy, (new,) = placed["images"][7], placed["placed"]
    assert (copy["id"], new["nearest"], new["path"]) == (8, 8, str(tmp_path / "new.png"))
    assert (new["x"], new["y"]) == (pytest.approx(copy["x"], abs=1e-3), pytest.approx(copy["y"], abs=1e-3))
    (tmp_path / "broken.png").write_bytes(b"")
    for command in (("map", "last", "--place"), ("neighbours", "last")):
        assert "broken.png" in crlc(*command, tmp_path / "broken.png").err
    assert "nowhere.png" in crlc("neighbours", "last", tmp_path / "nowhere.png").err
    assert "ACC" in crlc("quality", "last").out
    subheads = crlc("quality", "last", "--json").json["summary"]["subhead_agreement"]
    assert 0 <= subheads <= 1


@pytest.mark.slow
def test_explore_prints_text_and_json(crlc, small_set: Path):
    crlc("import", small_set, "--limit", 24)
    dry_run = crlc("explore", "set", "--method", "pca", "--dry-run")
    assert re.search(r"^set: .*\d s", dry_run.out)
    content = crlc("explore", "set", "--method", "pca", "--json").json
    assert content["provisional"] is True
    assert sum(one["images"] for one in content["clusters"]) == 24
    assert len(content["images"]) == 24
    assert content["classes"]["acc"] > 0.9
    shown = crlc("explore", "set", "--method", "pca").out
    assert "24 images" in shown
    assert "provisional" in shown
    assert "crlc train set" in shown
