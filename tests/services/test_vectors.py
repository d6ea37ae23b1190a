"""Imported vectors instead of a backbone: explore, train, count, assign and export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from crlc.data.imported_vectors import read_imported_vectors
from crlc.errors import UsageError
from crlc.services.vectors import apply_vectors_to_request, require_vectors
from crlc.training.request import TrainRequest
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

FAST = ("--epochs", 30, "--set", "subheads=3", "--set", "unbalanced_subheads=1", "--set", "batch_size=32")
CLASSES = np.arange(60) % 3


@pytest.fixture
def points(crlc, tmp_path: Path, workspace: Workspace):
    """Import 60 vectors of three well separated groups whose images do not exist."""
    generator = np.random.default_rng(0)
    rows = 5 * np.eye(3, 20)[CLASSES] + generator.normal(0, 0.3, (60, 20))
    table = pa.table({
        "path": [f"gone/{number:03}.jpg" for number in range(60)],
        "class": [f"c{number}" for number in CLASSES],
        "embedding": rows.tolist(),
    })  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "points.parquet")
    outcome = crlc("import", tmp_path / "points.parquet", "--vectors", tmp_path / "points.parquet", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["vectors"]["by_path"] is True
    return workspace.open_dataset("points")


@pytest.mark.usefixtures("points")
def test_explore_train_and_export_use_the_vectors(crlc, tmp_path: Path):
    explored = crlc("explore", "points", "--clusters", 3, "--method", "pca", "--json").json
    assert explored["classes"]["acc"] == 1
    trained = crlc("train", "points", "--clusters", 3, *FAST)
    assert "imported vectors" in trained.err + trained.out
    assert "ACC 100.0%" in trained.out
    for file in ("z.parquet", "z.npz", "z.npy"):
        assert "60 vectors of 128 numbers" in crlc("export", "last", "--vectors", tmp_path / file).out
    z = np.load(tmp_path / "z.npy")
    assert np.linalg.norm(z, axis=1) == pytest.approx(np.ones(60), abs=1e-5)
    table = pyarrow.parquet.read_table(tmp_path / "z.parquet")
    assert table["path"].to_pylist()[:2] == ["gone/000.jpg", "gone/001.jpg"]
    assert np.array_equal(np.array(table["vector"].to_pylist(), np.float32), z)
    assert np.array_equal(np.load(tmp_path / "z.npz")["vectors"], z)
    crlc("label", "points", "exclude", 1)
    outcome = crlc("export", "last", "--vectors", tmp_path / "h.npz", "--features", "h")
    assert "59 vectors of 20 numbers" in outcome.out
    assert "1 excluded" in outcome.out
    again = crlc("import", tmp_path / "points.parquet", "--vectors", tmp_path / "z.parquet")  # round trip
    assert "60 of 128 numbers" in again.out


@pytest.mark.usefixtures("points")
def test_a_run_on_vectors_has_no_backbone_for_other_images(crlc, tmp_path: Path):
    assert crlc("train", "points", "--clusters", 3, *FAST, "--epochs", 1).code == 0
    save_images(tmp_path / "new", 2)
    for arguments in (
        ("assign", "last", tmp_path / "new"),
        ("export", "last", "--model", tmp_path / "m.crlc"),
        ("export", "last", "--out", tmp_path / "m.onnx"),
    ):
        outcome = crlc(*arguments)
        assert outcome.code == 2
        assert "imported vectors" in outcome.err
    assert not list(tmp_path.glob("m.*"))


def test_vectors_are_the_default_only_for_requests_that_leave_the_network_open(points):
    backbone = read_imported_vectors(points).backbone
    for request in (TrainRequest(), TrainRequest(backbone="vectors"), TrainRequest(method="two-stage")):
        applied = apply_vectors_to_request(points, request)
        assert (applied.backbone, applied.frozen) == (backbone, True)
    for request in (
        TrainRequest(backbone="small"),
        TrainRequest(method="end-to-end"),
        TrainRequest(frozen=False),
        TrainRequest(preset="paper-cifar10"),
        TrainRequest(assignments=("model.backbone=small",)),
    ):
        assert apply_vectors_to_request(points, request) == request


@pytest.mark.usefixtures("points")
def test_count_suggests_the_number_of_groups_of_vectors(crlc):
    found = crlc("count", "points", "--json").json
    assert (found["suggestion"], found["read_from"]) == (3, "imported vectors")


def test_vectors_are_refused_where_there_are_none(crlc, workspace: Workspace, points, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with pytest.raises(UsageError, match="no imported vectors"):
        require_vectors(dataset)
    assert "must end in" in crlc("import", tmp_path / "set", "--vectors", tmp_path / "v.txt").err
    name = read_imported_vectors(points).backbone
    with pytest.raises(UsageError, match="cannot be trained"):
        TrainSettings().replace(backbone=name)
    assert "--features" in crlc("export", "last", "--out", tmp_path / "a.csv", "--features", "h").err
