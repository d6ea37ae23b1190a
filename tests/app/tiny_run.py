"""A run of a dozen pictures whose result and map are written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crlc.analysis.map_settings import MapSettings, map_file, write_map
from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from crlc.workspace.run_files import maps_folder
from tests.pictures import save_pictures
from tests.workspace.handmade_results import handmade_result, on_circle

CLUSTERS = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
ANGLES = [0, 4, 8, 40, 90, 94, 98, 130, 180, 184, 188, 220]
SURE = [0.9, 0.8, 0.7, 0.6, 0.95, 0.85, 0.75, 0.65, 0.92, 0.82, 0.72, 0.62]
PLACES = np.array(
    [[-10, 6], [-9, 6], [-10, 5], [-9, 5], [9, 6], [10, 6], [9, 5], [10, 5], [-1, -6], [0, -6], [1, -6], [0, -5]],
    np.float32,
)
"""Cluster 0 at the upper left, 1 at the upper right, 2 at the bottom."""


def tiny_dataset(workspace: Workspace, folder: Path, *, classes: bool = True) -> ImageDataset:
    """Twelve pictures, four of each class `a`, `b` and `c`; images 1 to 12 in the order of their paths."""
    for number, name in enumerate("abc" if classes else "x"):
        save_pictures(folder / name if classes else folder, 4 if classes else 12, first_seed=10 * number)
    return workspace.import_dataset(str(folder))[0]


def describe_run(workspace: Workspace, dataset: ImageDataset, name: str, *, clusters: int) -> None:
    """What the files of a run say about it."""
    RunFolder(workspace.root / "runs" / name).write_description(
        {
            "dataset": dataset.name,
            "dataset_uid": dataset.info.uid,
            "manifest_version": dataset.version,
            "preset": "quick",
            "settings": TrainSettings(clusters=clusters).to_json(),
            "created": "2024-01-01T00:00:00+00:00",
        }
    )


def tiny_run(workspace: Workspace, dataset: ImageDataset, *, clusters: list[int] | None = None) -> RunFolder:
    """Its result and all three maps, which are the same."""
    describe_run(workspace, dataset, "tiny-run", clusters=3)
    run = handmade_result(
        workspace, dataset, z=on_circle(ANGLES), clusters=clusters or CLUSTERS, sure=SURE, count=3, name="tiny-run"
    )
    maps_folder(run).mkdir(exist_ok=True)
    z = run.result()[0]["z"]
    for method in ("umap", "tsne", "pca"):
        write_map(map_file(maps_folder(run), z, MapSettings(method)), PLACES)
    return run
