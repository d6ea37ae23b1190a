"""Sample images of each cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.view_models.cluster_samples import read_cluster_samples, select_samples
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


def test_select_samples_returns_the_most_confident_images_of_the_largest_clusters():
    clusters = np.array([0, 0, 2, 2, 2, 3, -1])
    confidence = np.array([0.5, 0.9, 0.7, 0.6, 0.8, 1.0, 1.0], np.float32)
    found = select_samples(np.arange(11, 18), clusters, confidence, count=2, images=2)
    assert {number: (size, ids.tolist()) for number, (size, ids) in found.items()} == {
        0: (2, [12, 11]),
        2: (3, [15, 13]),
    }
    assert select_samples(np.array([1]), np.array([-1]), np.array([1.0], np.float32), 2, 2) == {}


def test_cluster_samples_of_a_run_have_title_colour_and_records(tmp_path: Path):
    workspace = Workspace(tmp_path / "workspace")
    run = write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    first, second, third = read_cluster_samples(workspace, run, clusters=12, images=2)
    assert [(one.title, one.size) for one in (first, second, third)] == [
        ("cluster 0", 4),
        ("cluster 1", 4),
        ("cluster 2", 4),
    ]
    assert [record.path for record in second.records] == ["b/00000.png", "b/00001.png"]
    assert len({one.colour for one in (first, second, third)}) == 3
