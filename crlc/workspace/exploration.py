"""A data set before any training: features of a pretrained backbone, their map, and provisional k-means clusters.

Kept with the data set: `exploration.json` names the folder that holds the arrays. They are of one version of the data
set; after another import they are made anew, which is quick, as the backbone's vectors of known images are kept.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.map_process import cached_map
from crlc.analysis.map_settings import MapSettings, read_map
from crlc.analysis.unit_rows import Vectors, fingerprint
from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.data.pixels import stored_sizes
from crlc.errors import DamagedError, UsageError, disk_full_explained
from crlc.files import read_json, write_file, write_json, writer_lock
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.training.images import TrainingImages, images_of, require_enough, without
from crlc.training.materials import build_network, frozen_inputs
from crlc.training.presets import DEFAULT_CLUSTERS, FROZEN_HEADS
from crlc.training.settings import TrainSettings
from crlc.workspace.annotations import Annotations
from crlc.workspace.workspace import Workspace

_KIND, _VERSION = "exploration", 1
_MARKER = "exploration.json"
_ADVICE = "Remove it; it is made again when needed."
_SMALL = ("ids", "cluster", "distance")
_BATCH = 4096
_SAMPLED = 50_000
_STARTS = 5
_FEWEST_CLUSTERS = 2


@dataclass(frozen=True)
class ExplorationSettings:
    """What is wanted."""

    clusters: int | None = None
    """How many; by default as many as there are known classes, or 10."""

    map: MapSettings = field(default_factory=MapSettings)
    """Which map."""

    seed: int = 0
    """Of k-means."""

    network: TrainSettings = FROZEN_HEADS
    """Which pretrained backbone, and the size of its images."""

    def __post_init__(self) -> None:
        """Check the number of clusters.

        Raises:
            UsageError: fewer than two.
        """
        if self.clusters is not None and self.clusters < _FEWEST_CLUSTERS:
            raise UsageError(f"clusters={self.clusters} is not allowed: it must be at least {_FEWEST_CLUSTERS}.")


@dataclass(frozen=True)
class Exploration:
    """One row per image, in the order of `ids`. Its clusters are provisional: nothing was trained."""

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    """Projected features, (N, d), mapped from their file."""

    clusters: NDArray[np.int64]
    """By k-means; cluster 0 is the largest."""

    distance: NDArray[np.float32]
    """To the centre of its cluster: the most typical images have the smallest."""

    places: Vectors
    """The map, (N, 2)."""

    facts: dict[str, Any]
    """What the marker says: `provisional`, the version of the data set, clusters, seed, map and backbone."""

    @property
    def count(self) -> int:
        """The number of clusters."""
        return int(self.facts["clusters"])


def read_exploration(dataset: ImageDataset) -> Exploration | None:
    """What is kept of the data set's present version; none when there is nothing, or it is damaged.

    Images that were excluded since are still in it.
    """
    try:
        return _read(dataset)
    except (DamagedError, OSError, ValueError, EOFError, KeyError, TypeError):
        return None


def explore(
    workspace: Workspace,
    dataset: ImageDataset,
    settings: ExplorationSettings | None = None,
    *,
    device: torch.device | None = None,
    report: ProgressCallback = no_progress,
) -> Exploration:
    """Look at a data set before training.

    Args:
        workspace: of the data set.
        dataset: whose images; excluded ones are left out.
        settings: what is wanted; what is kept already and was made so is given as it is.
        device: where the backbone computes; by default the CPU.
        report: told how far each step is.

    Raises:
        UsageError: there are fewer images than clusters.
        BusyError: another process explores it right now.
        CrlcError: the originals are gone but needed, or the disk is full.
    """
    settings = settings or ExplorationSettings()
    size = settings.network.image_size
    if size not in stored_sizes(dataset.folder, complete=True):
        dataset, _ = workspace.import_dataset(
            dataset.info.location, name=dataset.name, options=ImportOptions(size=size), report=report
        )
    clusters = settings.clusters or len(dataset.summary().classes) or DEFAULT_CLUSTERS
    settings = replace(settings, clusters=clusters)
    with Annotations(dataset) as annotations:
        excluded = annotations.refresh().excluded()
    images = without(images_of(dataset, size), excluded.tolist())
    require_enough(images, clusters)
    place = dataset.folder / "exploration"
    with (
        disk_full_explained(dataset.folder),
        writer_lock(dataset.folder / "exploration.lock", f"The exploration of {dataset.name}"),
    ):
        kept = read_exploration(dataset)
        if kept is not None and kept.facts == _facts(dataset, settings, images.ids, kept.facts["folder"]):
            return kept
        place.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=place, prefix="arrays-"))
        try:
            _fill(folder, images, settings, device or torch.device("cpu"), report)
            write_json(
                dataset.folder / _MARKER,
                {"kind": _KIND, "version": _VERSION, **_facts(dataset, settings, images.ids, folder.name)},
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _remove(place.glob("arrays-*"), but=folder)
        return _read(dataset)


def provisional_clusters(
    vectors: NDArray[np.float32], clusters: int, seed: int = 0, report: ProgressCallback = no_progress
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """k-means: the cluster of each row, 0 being the largest, and its distance to the centre, (N,) each.

    Of very many rows a part, at even steps, decides where the centres are.
    """
    from sklearn.cluster import KMeans

    sample = vectors[:: -(-len(vectors) // _SAMPLED)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are fewer different images than clusters: some stay empty
        model = KMeans(clusters, n_init=_STARTS, random_state=seed).fit(sample)
    centres = model.cluster_centers_
    found, distance = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    stage = Stage("Provisional clusters", len(vectors), report)
    for start in range(0, len(vectors), _BATCH):
        chunk = vectors[start : start + _BATCH]
        part = slice(start, start + len(chunk))
        found[part] = model.predict(chunk)
        distance[part] = np.linalg.norm(chunk - centres[found[part]], axis=1)
        stage.advance(len(chunk))
    stage.finish()
    rank = np.empty(clusters, np.int64)
    rank[np.argsort(-np.bincount(found, minlength=clusters), kind="stable")] = np.arange(clusters)
    return rank[found], distance


def _fill(
    folder: Path, images: TrainingImages, settings: ExplorationSettings, device: torch.device, report: ProgressCallback
) -> None:
    built = build_network(settings.network, len(images))
    built.network.to(device)
    inputs = frozen_inputs(built, images, settings.network, folder / "vectors.npy", fit=True, report=report)
    assert settings.clusters is not None
    clusters, distance = provisional_clusters(inputs.vectors, settings.clusters, settings.seed, report)
    vectors = inputs.vectors
    # Beside the arrays: the same images give the same vectors again, and those the same maps.
    maps = folder.with_name(f"maps-{hashlib.sha256(fingerprint(vectors).encode()).hexdigest()[:16]}")
    maps.mkdir(exist_ok=True)
    places = cached_map(vectors, settings.map, maps, report=report)
    _remove(folder.parent.glob("maps-*"), but=maps)
    arrays: dict[str, NDArray[Any]] = {"ids": images.ids, "cluster": clusters, "distance": distance, "map": places}
    for name, array in arrays.items():
        write_file(folder / f"{name}.npy", partial(np.save, arr=array, allow_pickle=False))


def _remove(folders: Iterable[Path], but: Path) -> None:
    """Delete what is of no use any more."""
    for old in folders:
        if old != but:
            shutil.rmtree(old, ignore_errors=True)


def _facts(dataset: ImageDataset, settings: ExplorationSettings, ids: NDArray[np.int64], folder: str) -> dict[str, Any]:
    return {
        "provisional": True,
        "dataset_uid": dataset.info.uid,
        "manifest_version": dataset.version,
        "images": hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=8).hexdigest(),
        "backbone": settings.network.backbone,
        "image_size": settings.network.image_size,
        "clusters": settings.clusters,
        "seed": settings.seed,
        "map": {"method": settings.map.method, **settings.map.relevant},
        "folder": folder,
    }


def _read(dataset: ImageDataset) -> Exploration:
    marker = read_json(dataset.folder / _MARKER, _KIND, _VERSION, _ADVICE)
    facts = {name: value for name, value in marker.items() if name not in ("kind", "version")}
    if (facts["dataset_uid"], facts["manifest_version"]) != (dataset.info.uid, dataset.version):
        raise DamagedError(f"{dataset.folder / _MARKER} is of another version of the data set. {_ADVICE}")
    folder = dataset.folder / "exploration" / facts["folder"]
    ids, clusters, distance = (np.load(folder / f"{name}.npy", allow_pickle=False) for name in _SMALL)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
    places = read_map(folder / "map.npy", len(ids))
    if places is None or not len(ids) == len(clusters) == len(distance) == len(vectors):
        raise DamagedError(f"{folder} is not complete. {_ADVICE}")
    return Exploration(ids, vectors, clusters, distance, places, facts)
