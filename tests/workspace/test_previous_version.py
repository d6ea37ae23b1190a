"""A workspace that the previous version wrote: everything in it opens and works.

`previous_workspace.zip` holds 60 digits with labels, exclusions and edited clusters; a finished run with cached
neighbours and map, its CRLC-semi child, and a run whose process was killed; cached features of a pretrained backbone;
an exported model, an exported table and a saved estimator.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crlc.estimator import CRLC
from crlc.workspace import Workspace
from tests.conftest import Outcome

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "previous_workspace.zip"


@pytest.fixture
def previous(workspace: Workspace) -> Path:
    """Unpack the previous version's workspace into the workspace of the test, and return its folder."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(workspace.root)
    description = workspace.root / "datasets" / "digits" / "dataset.json"
    content = json.loads(description.read_text())
    content["downloads"] = str(workspace.root / "downloads")
    description.write_text(json.dumps(content))
    return workspace.root


@pytest.mark.usefixtures("previous")
def test_previous_dataset_is_read_completely(crlc: Callable[..., Outcome]):
    found = crlc("dataset", "digits", "--json").json
    assert (found["readable"], found["sizes"], found["version"]) == (60, [16, 160], 2)
    assert found["classes"] == {"0": 6, "1": 6, "2": 5, "3": 6, "4": 5, "5": 4, "6": 8, "7": 8, "8": 6, "9": 6}


@pytest.mark.usefixtures("previous")
def test_previous_annotations_are_replayed_and_can_be_undone(crlc: Callable[..., Outcome]):
    found = crlc("label", "digits", "list", "--json").json
    assert (found["labels"], found["excluded"]) == ({"zero": 3, "one": 2}, 1)
    clusters = crlc("clusters", "parent", "--json").json["clusters"]
    assert [(one["cluster"], one["images"], one["name"]) for one in clusters] == [
        (0, 14, "round ones"),
        (1, 13, None),  # clusters 1 and 2 were merged
        (3, 33, None),
    ]
    assert crlc("clusters", "parent", "undo").code == 0
    assert [one["cluster"] for one in crlc("clusters", "parent", "--json").json["clusters"]] == [0, 1, 2, 3]


@pytest.mark.usefixtures("previous")
def test_previous_runs_have_their_states_and_metrics(crlc: Callable[..., Outcome]):
    runs = {one["run"]: one for one in crlc("runs", "--json").json["runs"]}
    states = {name: one["state"] for name, one in runs.items()}
    assert states == {"parent": "finished", "child": "finished", "killed": "interrupted"}
    assert runs["parent"]["metrics"]["acc"] == pytest.approx(0.28333, abs=1e-5)
    settings = crlc("show", "parent", "--json").json["settings"]
    assert (settings["subheads"], settings["seed"], settings["critic"]) == (3, 1, "log-dot")


def test_previous_map_and_neighbours_are_used_from_the_cache(previous: Path, crlc: Callable[..., Outcome]):
    cached = {file: file.stat().st_mtime_ns for file in (previous / "runs" / "parent").rglob("*.npy")}
    found = crlc("neighbours", "parent", "5", "-k", "3", "--json").json["neighbours"]
    assert [(one["id"], one["s"]) for one in found] == [(37, 0.994386), (41, 0.9936), (48, 0.991403)]
    assert crlc("map", "parent", "--method", "pca").code == 0
    assert {file: file.stat().st_mtime_ns for file in (previous / "runs" / "parent").rglob("*.npy")} == cached


def test_previous_export_is_written_again_byte_for_byte(previous: Path, crlc: Callable[..., Outcome], tmp_path: Path):
    assert crlc("export", "parent", "--out", tmp_path / "again.csv", "--no-columns").code == 0
    assert (tmp_path / "again.csv").read_bytes() == (previous / "export.csv").read_bytes()


@pytest.mark.slow
def test_previous_features_are_not_computed_again(previous: Path, crlc: Callable[..., Outcome]):
    features = previous / "datasets" / "digits" / "features"
    cached = {file: file.stat().st_mtime_ns for file in features.rglob("*") if file.is_file()}
    assert cached
    assert (
        crlc("train", "digits", "--method", "two-stage", "--backbone", "default", "--frozen", "--epochs", "1").code == 0
    )
    after = {file: file.stat().st_mtime_ns for file in features.rglob("*") if file.is_file()}
    assert {file: after[file] for file in cached} == cached
    added = [file.name for file in after.keys() - cached.keys()]
    assert all(name.endswith(".classes.npy") for name in added)  # computed from the stored features


def test_previous_killed_run_is_resumed_to_its_end(previous: Path, crlc: Callable[..., Outcome]):
    description = previous / "runs" / "killed" / "run.json"
    content = json.loads(description.read_text())
    content["settings"]["epochs"] = 6  # it was killed after the first of 400
    description.write_text(json.dumps(content))
    assert crlc("resume", "killed").code == 0
    after = crlc("show", "killed", "--json").json
    assert (after["state"], after["epoch"]) == ("finished", 6)


@pytest.mark.usefixtures("previous")
def test_previous_run_can_be_the_parent_of_a_semi_run(crlc: Callable[..., Outcome]):
    options = ("--method", "semi", "--parent", "parent", "--labels", "workspace", "--epochs", "1")
    assert crlc("train", "digits", *options).code == 0
    assert crlc("compare", "parent", "last").code == 0


def test_previous_model_file_assigns_images(previous: Path, crlc: Callable[..., Outcome], tmp_path: Path):
    assert crlc("assign", previous / "model.crlc", "digits", "--out", tmp_path / "model.csv").code == 0
    assert len((tmp_path / "model.csv").read_text().splitlines()) == 1797 + 1


def test_previous_estimator_file_predicts_the_same(previous: Path):
    images = np.load(previous / "estimator-images.npy")
    np.testing.assert_array_equal(
        CRLC.load(previous / "estimator.pt").predict(images), np.load(previous / "estimator-labels.npy")
    )
