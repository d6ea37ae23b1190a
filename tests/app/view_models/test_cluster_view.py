"""Views of runs and datasets: order of their images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.view_models.cluster_view import MOST_TYPICAL, OUTLIERS
from app.view_models.view_cache import open_dataset_view
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_exploration


def test_typical_images_of_an_untrained_dataset_come_from_all_clusters(workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_exploration(dataset)
    folder = dataset.folder / "exploration" / "arrays-1"
    np.save(folder / "cluster.npy", np.array([0] * 6 + [1] * 4 + [2] * 2))
    # Cluster 2 is the densest: by distance alone, all of it would come first.
    np.save(folder / "distance.npy", np.array([9, 8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 0.2, 0.1], np.float32))
    view = open_dataset_view(workspace, dataset)
    rows = np.arange(12)
    assert view.sort_rows(rows, MOST_TYPICAL).tolist() == [5, 9, 11, 4, 8, 10, 3, 7, 2, 6, 1, 0]
    assert view.sort_rows(rows[6:10], MOST_TYPICAL).tolist() == [9, 8, 7, 6]
    assert view.sort_rows(rows[:0], MOST_TYPICAL).tolist() == []
    assert view.sort_rows(rows, OUTLIERS).tolist() == rows.tolist()
