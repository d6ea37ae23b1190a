"""Colourings of a map: values and legend."""

from __future__ import annotations

import numpy as np
import pytest

from app.figures.colours import PALETTE, UNKNOWN_COLOUR
from app.view_models import colouring
from app.view_models.colouring import UNKNOWN_VALUE, compute_colouring, list_colourings, list_column_colourings
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import NotFoundError
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import CLUSTERS, CONFIDENCES, import_tiny_dataset, write_tiny_run


def test_colouring_of_a_run_has_values_and_legend(workspace: Workspace, tmp_path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    view = open_run_view(workspace, run)
    assert list_colourings(view) == ("cluster", "class", "confidence", "agreement")
    by_cluster = compute_colouring(view, "cluster")
    assert by_cluster.values.tolist() == CLUSTERS
    assert by_cluster.values.dtype == np.uint16
    assert by_cluster.scale["entries"][1] == {"value": 1, "text": "cluster 1", "count": 4, "colour": PALETTE[1]}
    assert compute_colouring(view, "confidence").values.tolist() == [
        round(value * 65534) for value in np.float32(CONFIDENCES)
    ]
    assert [entry["text"] for entry in compute_colouring(view, "class").scale["entries"]] == ["a", "b", "c"]
    assert compute_colouring(view, "class").get_colour(5) == PALETTE[1]
    # 0.6 is the fourth of six colours; 0.95 is three quarters of the way from the fifth to the last.
    by_confidence = compute_colouring(view, "confidence")
    assert by_confidence.get_colour(3) == "#35b779"
    np.testing.assert_allclose(list(bytes.fromhex(by_confidence.get_colour(4)[1:])), [225.75, 227, 44.5], atol=1)
    with pytest.raises(NotFoundError, match="cannot be coloured by 'label'"):
        compute_colouring(view, "label")

    # A label keeps its colour when another label is added, whatever its name.
    with AnnotationStore(dataset) as annotations:
        annotations.label([3], "zebra")
        first = compute_colouring(open_run_view(workspace, run), "label")
        annotations.label([1], "ant")
    second = compute_colouring(open_run_view(workspace, run), "label")
    assert first.values.tolist() == [UNKNOWN_VALUE] * 2 + [0] + [UNKNOWN_VALUE] * 9
    assert second.values.tolist() == [1, UNKNOWN_VALUE, 0] + [UNKNOWN_VALUE] * 9
    assert [entry["text"] for entry in second.scale["entries"]] == ["zebra", "ant", "not labelled"]
    assert [second.describe(value) for value in (1, UNKNOWN_VALUE)] == ["ant", "not labelled"]
    assert second.get_colour(1) == UNKNOWN_COLOUR
    assert open_annotations(dataset).refresh().all_label_names == ("zebra", "ant")


def write_columns(dataset: ImageDataset, rows: list[tuple[int, float | None, str | None]]) -> None:
    with Manifest(dataset.folder, create=True) as manifest, manifest.transaction():
        manifest.connection.execute("DELETE FROM photo_values")
        manifest.connection.executemany("INSERT INTO photo_values (id, taken, camera) VALUES (?, ?, ?)", rows)


def test_colouring_by_a_column(workspace: Workspace, tmp_path):
    dataset = import_tiny_dataset(workspace, tmp_path)
    day = 86_400.0
    cameras = [None, "B", "A", "A", None, "A"]
    write_columns(dataset, [(number + 1, day * number, camera) for number, camera in enumerate(cameras)])
    view = open_run_view(workspace, write_tiny_run(workspace, dataset))
    assert {"taken", "camera"} <= {info.name for info in list_column_colourings(view)}
    by_date = compute_colouring(view, "column:taken")
    assert by_date.scale["kind"] == "continuous"
    known = by_date.values[:6]
    assert known[0] == 0
    assert known[5] == 65534
    assert (np.diff(known.astype(int)) >= 0).all()
    assert set(by_date.values[6:].tolist()) <= {UNKNOWN_VALUE}
    assert (by_date.scale["low"], by_date.scale["high"][0]) == ("Taken ≤ 1970-01-01", "≥")
    by_camera = compute_colouring(view, "column:camera")
    texts = [(entry["text"], entry["count"], entry["colour"]) for entry in by_camera.scale["entries"]]
    assert texts[:2] == [("A", 3, PALETTE[0]), ("B", 1, PALETTE[1])]  # the most frequent first
    assert texts[2][0] == "no camera"
    assert by_camera.get_colour(2) == PALETTE[0]


def test_colouring_by_many_categories_groups_the_rare_ones(workspace: Workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(colouring, "_MAX_COLUMN_CATEGORIES", 2)
    dataset = import_tiny_dataset(workspace, tmp_path)
    write_columns(dataset, [(number, None, name) for number, name in enumerate("ABBCCCDDDEEE", start=1)])
    view = open_run_view(workspace, write_tiny_run(workspace, dataset))
    entries = compute_colouring(view, "column:camera").scale["entries"]
    assert [(entry["text"], entry["count"]) for entry in entries] == [("C", 3), ("D", 3), ("3 other values", 6)]
