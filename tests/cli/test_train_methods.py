"""Command train: methods, splits, labels and suggested numbers of clusters."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.analysis.class_metrics import compute_accuracy
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

pytestmark = pytest.mark.slow

FAST = ("--set", "subheads=2", "--set", "batch_size=64")


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Return a folder of 60 coloured images of three classes, one subfolder for each class."""
    generator = np.random.default_rng(0)
    for number in range(60):
        pixels = generator.integers(0, 90, (40, 40, 3))
        pixels[:, :, number % 3] += 150
        file = tmp_path / "photos" / ["red", "green", "blue"][number % 3] / f"{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(file)
    return tmp_path / "photos"


def test_train_on_photographs_uses_a_frozen_backbone(crlc, photographs: Path, workspace: Workspace):
    small = ("--set", "image_size=32", "--set", "epochs=30", *FAST)
    outcome = crlc("train", photographs, *small, "--json")
    assert outcome.code == 0, outcome.err
    assert "two-stage" in outcome.err
    assert "Computing features" in outcome.err
    assert outcome.json["metrics"]["acc"] > 0.9
    run = RunStore(workspace).open("last")
    assert run.read_metadata()["settings"]["frozen"]
    again = crlc("train", "photos", *small, "--seed", 1)
    assert again.code == 0
    assert "Computing features" not in again.err  # they were cached
    assigned = crlc("assign", "last", photographs / "red", "--json").json
    assert len({row["cluster"] for row in assigned["images"]}) == 1


def test_train_on_small_grey_images_is_end_to_end_by_default(crlc, small_set: Path, workspace: Workspace):
    first = crlc("train", small_set, "--epochs", 1, *FAST)
    assert "end-to-end" in first.err
    assert "16 px" in first.err
    arguments = ("--method", "two-stage", "--backbone", "small", "--neighbours", 5, "--set", "pretrain_epochs=2")
    outcome = crlc("train", "set", *arguments, "--epochs", 1, *FAST, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["epochs"] == 3
    stages = [record for record in RunStore(workspace).open("last").metrics_log.read() if record["kind"] == "stage"]
    assert [record["stage"] for record in stages] == ["representation", "clusters"]
    assert 0 < stages[1]["neighbour_purity"] <= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "semi"], "--labels"),
        (["--frozen", "--backbone", "small"], "frozen=True"),
        (["--backbone", "resnet5"], "resnet50?"),
        (["--backbone", "timm/no_such_model"], "no_such_model"),
        (["--weights", "missing.pth", "--backbone", "resnet18"], "missing.pth"),
        (["--preset", "paper-imagenet50"], "weights"),
        (["--split", "test"], "split='test'"),
        (["--clusters", "many"], "clusters='many' is not allowed"),
        (["--clusters", "auto:2"], "from 3 to 100"),
    ],
)
def test_train_rejects_wrong_arguments(crlc, small_set: Path, workspace: Workspace, arguments: list[str], words: str):
    crlc("import", small_set)
    outcome = crlc("train", "set", *arguments)
    assert outcome.code in (1, 2)
    assert words in outcome.err
    assert "Unexpected" not in outcome.err
    assert RunStore(workspace).list_ids() == []


@pytest.fixture
def split_set(tmp_path: Path, small_set: Path) -> Path:
    """Return a CSV file of the small dataset: 120 in the split train, 60 in test, and 20 unlabelled."""
    images, rows = np.load(small_set)["images"], []
    for number, pixels in enumerate(images):
        split = "train" if number < 120 else "test" if number < 180 else "unlabelled"
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append((f"{number}.png", split, "" if split == "unlabelled" else ("bars", "columns")[number % 2]))
    with (tmp_path / "list.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("path", "split", "class"), *rows])
    return tmp_path / "list.csv"


def test_train_uses_one_split_and_evaluates_another(crlc, split_set: Path, workspace: Workspace):
    arguments = ("--epochs", 30, "--clusters", 2, *FAST)
    outcome = crlc("train", split_set, "--split", "train", "--evaluate-split", "test", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["metrics"]["acc"] > 0.9
    run = RunStore(workspace).open("last")
    assert len(run.read_ids()) == 120
    assert run.read_metadata()["evaluate_split"] == "test"
    whole = crlc("train", "list", "--epochs", 1, *FAST, "--json")
    assert len(RunStore(workspace).open(whole.json["run"]).read_ids()) == 200


def test_train_semi_with_labels_from_csv_names_the_clusters(crlc, small_set: Path, tmp_path: Path, workspace):
    parent = crlc("train", small_set, "--epochs", 4, "--clusters", 3, *FAST, "--json").json["run"]
    with (tmp_path / "labels.csv").open("w", newline="") as stream:
        rows = [(number, ("bars", "columns")[(number - 1) % 2]) for number in range(1, 9)]
        csv.writer(stream).writerows([("id", "label"), *rows])
    arguments = ("train", "set", "--method", "semi", "--parent", parent, "--labels", tmp_path / "labels.csv")
    outcome = crlc(*arguments, "--epochs", 20, "--json")
    assert outcome.code == 0, outcome.err
    child = RunStore(workspace).open(outcome.json["run"])
    description = child.read_metadata()
    assert (description["parent"], sorted(description["names"].values())) == (parent, ["bars", "columns"])
    clusters = np.array(child.open_result()[0]["cluster"])
    names = np.array([description["names"].get(str(cluster), "") for cluster in clusters])
    expected = np.array(["bars", "columns"])[np.arange(200) % 2]
    accuracy = (names == expected)[8:].mean()
    assert accuracy > 0.9
    assert outcome.json["metrics"]["classification_accuracy"] == pytest.approx(accuracy)
    shown = crlc("show", child.id).out
    assert f"accuracy {accuracy:.1%}" in shown
    assert compute_accuracy(clusters, np.arange(200) % 2) > 0.9


def test_train_semi_with_labels_of_the_workspace_and_of_classes(crlc, small_set: Path, workspace: Workspace):
    parent = crlc("train", small_set, "--epochs", 2, *FAST, "--json").json["run"]
    semi = ("train", "set", "--method", "semi", "--parent", parent, "--epochs", 1)
    empty = crlc(*semi, "--labels", "workspace")
    assert empty.code == 2
    assert "labels='workspace'" in empty.err
    assert crlc("label", "set", "set", "bars", 1, 3).code == 0
    assert crlc("label", "set", "set", "columns", 2).code == 0
    assert crlc(*semi, "--labels", "workspace").code == 0
    assert len(np.load(RunStore(workspace).open("last").path / "labels.npy")) == 3
    assert crlc(*semi, "--labels", "classes:5", "--seed", 3).code == 0
    assert len(np.load(RunStore(workspace).open("last").path / "labels.npy")) == 10


def test_train_semi_with_a_paper_preset_needs_no_parent(crlc, small_set: Path, workspace: Workspace):
    tiny = ("--epochs", 3, "--backbone", "small", "--set", "image_size=16", "--set", "batch_size=64", "--clusters", 2)
    crlc("import", small_set)
    outcome = crlc("train", "set", "--preset", "paper-semi-cifar10", *tiny)
    assert outcome.code == 2
    assert "--labels" in outcome.err
    outcome = crlc("train", "set", "--preset", "paper-semi-cifar10", "--labels", "classes:10", *tiny)
    assert outcome.code == 0, outcome.err
    description = RunStore(workspace).open("last").read_metadata()
    assert (description["preset"], description["settings"]["method"]) == ("paper-semi-cifar10", "semi")
    assert description["names"] == {"0": "0", "1": "1"}


def test_train_semi_with_a_paper_preset_reports_that_it_trains_on_the_test_split(crlc, split_set: Path):
    tiny = ("--epochs", 1, "--backbone", "small", "--set", "image_size=16", "--set", "batch_size=64", "--clusters", 2)
    train = ("train", split_set, "--preset", "paper-semi-cifar10", "--labels", "classes:2", *tiny)
    outcome = crlc(*train)
    assert outcome.code == 0, outcome.err
    assert "on the split 'train'" in outcome.err
    outcome = crlc(*train, "--split", "train", "--evaluate-split", "test")
    assert outcome.code == 0, outcome.err
    assert "on the split 'train'" not in outcome.err


def test_train_semi_leaves_out_images_excluded_after_the_parent_run(crlc, small_set: Path, workspace: Workspace):
    parent = crlc("train", small_set, "--epochs", 1, *FAST, "--json").json["run"]
    crlc("label", "set", "set", "bars", 1, 3, 5)
    crlc("label", "set", "set", "columns", 4)
    crlc("label", "set", "exclude", 2, 3)
    outcome = crlc("train", "set", "--method", "semi", "--parent", parent, "--labels", "workspace", "--epochs", 1)
    assert outcome.code == 0, outcome.err
    child = RunStore(workspace).open("last")
    assert len(child.read_ids()) == 198
    labelled = child.read_ids()[np.load(child.path / "labels.npy")[:, 0]]
    assert labelled.tolist() == [1, 4, 5]


def test_train_leaves_out_excluded_images(crlc, small_set: Path, workspace: Workspace):
    crlc("import", small_set)
    assert crlc("label", "set", "exclude", 5, 6, 7).code == 0
    crlc("train", "set", "--epochs", 1, *FAST)
    ids = RunStore(workspace).open("last").read_ids()
    assert len(ids) == 197
    assert not set(ids.tolist()) & {5, 6, 7}
    crlc("label", "set", "exclude", *range(1, 201))
    outcome = crlc("train", "set", "--epochs", 1, *FAST)
    assert outcome.code == 2
    assert "excluded" in outcome.err


def test_train_with_auto_clusters_stores_the_suggestion_and_its_curve(crlc, small_set: Path, workspace: Workspace):
    outcome = crlc("train", small_set, "--clusters", "auto", "--epochs", 1, *FAST)
    assert outcome.code == 0, outcome.err
    assert "Clusters: 2 " in outcome.err
    assert "pixel" in outcome.err
    description = RunStore(workspace).open("last").read_metadata()
    assert description["settings"]["clusters"] == 2
    curve = description["cluster_count"]
    assert (curve["suggestion"], curve["counts"][0]) == (2, 2)
    assert len(curve["counts"]) == len(curve["added_share"]) == len(curve["information"])


def test_train_warns_of_small_batches_and_empty_clusters(crlc, small_set: Path):
    outcome = crlc("train", small_set, "--clusters", 150, "--epochs", 8, "--set", "subheads=2")
    assert "Warning:" in outcome.out
    few = crlc("train", "set", "--epochs", 1, "--set", "batch_size=512", "--json").json
    (warning,) = [warning for warning in few["warnings"] if warning["kind"] == "small-batch"]
    assert "200" in warning["text"]
    assert "512" in warning["text"]
