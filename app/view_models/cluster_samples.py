"""Sample images of each cluster in the newest result of a run, also while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.figures.colours import get_colour
from app.view_models.view_cache import open_run_view
from crlc.arrays import ImageIds
from crlc.clusters.colours import load_or_assign_colours
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.data.manifest import ImageRecord
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


@dataclass(frozen=True)
class ClusterSample:
    """The images of a cluster that the model is most confident about."""

    title: str
    size: int
    colour: str
    records: tuple[ImageRecord, ...]


def read_cluster_samples(workspace: Workspace, run: RunFolder, *, clusters: int, images: int) -> list[ClusterSample]:
    """Return sample images of the largest clusters, cached per result.

    Args:
        workspace: workspace of the run.
        run: the run.
        clusters: maximum number of clusters.
        images: number of images per cluster.

    Raises:
        CrlcError: the run has no result, or its dataset was removed.
    """
    metadata = read_result(run).metadata
    # The names of clusters belong to the final result. Its view would keep an earlier result while the run trains.
    version = open_run_view(workspace, run).version if metadata.get("final", True) else ""
    return list(_read(workspace.root, run.path, metadata["folder"], version, clusters, images))


@lru_cache(maxsize=16)
def _read(root: Path, path: Path, _: str, version: str, clusters: int, images: int) -> tuple[ClusterSample, ...]:
    workspace, run = Workspace(root), RunFolder(path)
    dataset = RunStore(workspace).open_dataset_of(run.read_metadata(), require_unchanged=False)
    if version:
        view = open_run_view(workspace, run)
        assert view.confidence is not None
        chosen = select_samples(view.ids, view.clusters, view.confidence, clusters, images)
        titles = {number: (view.format_cluster(number), view.get_colour(number)) for number in chosen}
    else:
        arrays = read_result(run).arrays
        colours = load_or_assign_colours(workspace, run)
        chosen = select_samples(arrays["ids"], arrays["cluster"], arrays["confidence"], clusters, images)
        titles = {number: (f"cluster {number}", get_colour(colours[number])) for number in chosen}
    return tuple(
        ClusterSample(titles[number][0], size, titles[number][1], _read_existing(dataset, ids))
        for number, (size, ids) in chosen.items()
    )


def select_samples(
    ids: ImageIds, clusters: NDArray[np.int64], confidence: NDArray[np.float32], count: int, images: int
) -> dict[int, tuple[int, ImageIds]]:
    """Return size and most confident images of the largest clusters, by number.

    Args:
        ids: the images, (N,).
        clusters: cluster of each image; below 0 for none.
        confidence: confidence of each image.
        count: maximum number of clusters.
        images: maximum number of images per cluster.
    """
    sizes = np.bincount(clusters[clusters >= 0])
    largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
    found = {}
    for number in largest[sizes[largest] > 0].tolist():
        rows = np.flatnonzero(clusters == number)
        rows = rows[np.argsort(-confidence[rows], kind="stable")[:images]]
        found[number] = (int(sizes[number]), ids[rows])
    return found


def _read_existing(dataset: ImageDataset, ids: ImageIds) -> tuple[ImageRecord, ...]:
    records = read_records(dataset, ids)
    return tuple(records[image] for image in ids.tolist() if image in records)
