"""Exploration of a dataset before training: pretrained features, their map, and provisional k-means clusters.

The result is stored with the dataset; `exploration.json` names the folder of its arrays. The result belongs to one
dataset version and is recomputed after another import, which is fast because features of known images are cached.

While features are computed, explorations of a growing part of the images are stored, so that the app shows a map after
seconds. They have the PCA map, the fastest one.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.class_metrics import match_clusters
from crlc.analysis.maps.process import load_or_compute_map
from crlc.analysis.maps.settings import MapSettings
from crlc.analysis.normalization import fingerprint_features
from crlc.annotations.store import read_excluded_ids
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError, explain_disk_full
from crlc.files import write_file, write_json, writer_lock
from crlc.progress import Progress, ProgressCallback, ProgressStage, no_progress
from crlc.services.exploration import (
    KIND,
    MARKER,
    VERSION,
    Exploration,
    get_explored_version,
    open_exploration,
    read_exploration,
)
from crlc.services.explored_network import store_projection
from crlc.services.run_preparation import store_pixels
from crlc.services.vectors import apply_vectors_to_network
from crlc.training.feature_cache import FEATURES_STAGE, count_missing_features
from crlc.training.frozen_features import load_frozen_features
from crlc.training.images import (
    TrainingImages,
    exclude_ids,
    load_images,
    require_enough_images,
    select_positions,
)
from crlc.training.network_builder import build_network
from crlc.training.presets import FROZEN_HEADS, MIN_CLUSTERS, choose_cluster_count
from crlc.training.settings import TrainSettings
from crlc.workspace.workspace import Workspace

_ROWS_PER_BATCH = 4096
MAX_KMEANS_ROWS = 50_000
"""Maximum number of rows that k-means is fitted on."""

LOADING_STAGE = "Loading the network"
"""Name of the stage in progress reports; it has no items."""

_FIRST_PART_IMAGES = 500
_PART_GROWTH = 3
_MIN_IMAGES_PER_CLUSTER = 5
_MIN_REST_FACTOR = 1.5
"""A part that is nearly as large as the whole is left out."""

_KMEANS_STARTS = 5


@dataclass(frozen=True)
class ExplorationSettings:
    """Options of an exploration."""

    clusters: int | None = None
    """Number of clusters; `None` for that of `choose_cluster_count`."""

    map: MapSettings = field(default_factory=MapSettings)
    """Method and settings of the map."""

    seed: int = 0
    """Seed of k-means."""

    network: TrainSettings = FROZEN_HEADS
    """Pretrained backbone and image size."""

    def __post_init__(self) -> None:
        """Validate the number of clusters.

        Raises:
            UsageError: there are fewer than two clusters.
        """
        if self.clusters is not None and self.clusters < MIN_CLUSTERS:
            raise UsageError(f"clusters={self.clusters} is not allowed: it must be at least {MIN_CLUSTERS}.")


def explore_dataset(
    workspace: Workspace,
    dataset: ImageDataset,
    settings: ExplorationSettings | None = None,
    *,
    device: torch.device | None = None,
    store_parts: bool = False,
    report: ProgressCallback = no_progress,
) -> Exploration:
    """Compute features, map and provisional clusters of a dataset, or load them if they are stored.

    Args:
        workspace: workspace of the dataset. If the backbone's image size is not stored yet, it is imported.
        dataset: dataset to explore; excluded images are left out. Imported vectors replace the default backbone.
        settings: options; `None` for the defaults.
        device: device that computes the features; `None` for the CPU.
        store_parts: store explorations of a growing part of the images while features are computed.
        report: receives the progress of each step.

    Raises:
        UsageError: there are fewer images than clusters.
        BusyError: another process is exploring the dataset.
        CrlcError: the original images are needed but missing, or the disk is full.
    """
    settings = settings or ExplorationSettings()
    settings = replace(settings, network=apply_vectors_to_network(dataset, settings.network))
    size = settings.network.data.image_size
    dataset = store_pixels(workspace, dataset, size, report)
    images = exclude_ids(load_images(dataset, size), read_excluded_ids(dataset))
    clusters = settings.clusters or choose_cluster_count(len(dataset.summarize().classes), len(images))
    settings = replace(settings, clusters=clusters)
    require_enough_images(images, clusters)
    with (
        explain_disk_full(dataset.folder),
        writer_lock(dataset.folder / "exploration.lock", f"The exploration of {dataset.name}"),
    ):
        stored = read_exploration(dataset)
        if stored is not None:
            expected = _build_metadata(dataset, settings, images.ids, stored.metadata["folder"])
            if stored.metadata == {**expected, "manifest_version": stored.metadata["manifest_version"]}:
                return stored
        dataset.exploration_folder.mkdir(exist_ok=True)
        report(Progress(LOADING_STAGE, 0, None, 0.0))  # else `Decoding 100%` would stay on the page
        device = device or torch.device("cpu")
        if store_parts:
            report = _store_parts(dataset, images, settings, device, report)
        return _store(dataset, images, settings, device, report)


def explore_import(
    dataset: ImageDataset,
    wait_for_images: Callable[[int], bool],
    *,
    device: torch.device | None = None,
    report: ProgressCallback = no_progress,
) -> None:
    """Store explorations of a growing part of the images while the first import of a dataset decodes them.

    Args:
        dataset: dataset whose first import runs, and stores images at the size of the default backbone.
        wait_for_images: waits until so many images are decoded; returns False if the import has ended.
        device: device that computes the features; `None` for the CPU.
        report: receives progress; an error that it raises ends the exploration, and features so far stay cached.

    Raises:
        BusyError: another process is exploring the dataset.
        CrlcError: the disk is full.
    """
    summary = dataset.summarize()
    total = summary.readable + summary.pending
    clusters = choose_cluster_count(len(summary.classes), total)
    settings = ExplorationSettings(clusters, MapSettings("pca"))
    dataset.exploration_folder.mkdir(exist_ok=True)
    with (
        explain_disk_full(dataset.folder),
        writer_lock(dataset.folder / "exploration.lock", f"The exploration of {dataset.name}"),
    ):
        for count in _plan_parts(total, max(_FIRST_PART_IMAGES, _MIN_IMAGES_PER_CLUSTER * clusters)):
            if not wait_for_images(count):
                return
            images = load_images(dataset, settings.network.data.image_size, decoded_so_far=True)
            if len(images) < clusters:
                return  # nearly all files are unreadable
            part = _select_spread(images, count)
            report(Progress(LOADING_STAGE, 0, None, 0.0))  # ends here if the import has ended in the meantime
            _store(dataset, part, settings, device or torch.device("cpu"), report, of=total)


def _store_parts(
    dataset: ImageDataset,
    images: TrainingImages,
    settings: ExplorationSettings,
    device: torch.device,
    report: ProgressCallback,
) -> ProgressCallback:
    """Store explorations of a growing part of the images; return the callback for the progress of the rest."""
    built = build_network(settings.network, len(images))
    missing = count_missing_features(images, built.identity)
    known = len(images) - missing
    assert settings.clusters is not None
    done = 0
    for count in _plan_parts(len(images), max(known, _FIRST_PART_IMAGES, _MIN_IMAGES_PER_CLUSTER * settings.clusters)):
        part = _select_spread(images, count)
        part_settings = replace(settings, map=MapSettings("pca"))
        # Only features are reported: the other steps of a part are fast.
        report_features = partial(_report_as_whole, report, done, missing, others=False)
        _store(dataset, part, part_settings, device, report_features, of=len(images))
        done = missing - count_missing_features(images, built.identity)
    return partial(_report_as_whole, report, done, missing, others=True)


def _select_spread(images: TrainingImages, count: int) -> TrainingImages:
    """Return up to `count` evenly spaced images."""
    return select_positions(images, np.linspace(0, len(images) - 1, min(count, len(images))).astype(np.int64))


def _plan_parts(images: int, count: int) -> list[int]:
    """Return the sizes of the parts, the first of which has `count` images; none if that is nearly all of them."""
    sizes = []
    while count * _MIN_REST_FACTOR < images:
        sizes.append(count)
        count *= _PART_GROWTH
    return sizes


def _report_as_whole(report: ProgressCallback, done: int, total: int, progress: Progress, *, others: bool) -> None:
    """Report the features of a part as progress of the whole, and with `others` also the other steps."""
    if progress.stage == FEATURES_STAGE:
        done += progress.done
        report(replace(progress, done=done, total=total, finished=progress.finished and done == total))
    elif others:
        report(progress)


def _store(
    dataset: ImageDataset,
    images: TrainingImages,
    settings: ExplorationSettings,
    device: torch.device,
    report: ProgressCallback,
    *,
    of: int | None = None,
) -> Exploration:
    """Compute an exploration of some images, and make it the stored one; `of` is the number of all images of a part."""
    root = dataset.exploration_folder
    folder = Path(tempfile.mkdtemp(dir=root, prefix="arrays-"))
    metadata = _build_metadata(dataset, settings, images.ids, folder.name)
    if of is not None:
        metadata["of"] = of
    try:
        stored = read_exploration(dataset)
        part = stored if stored is not None and stored.is_partial else None
        _write_arrays(folder, images, settings, device, report, part)
        write_json(dataset.folder / MARKER, {"kind": KIND, "version": VERSION, **metadata})
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _remove_all_except(folder, root.glob("arrays-*"))
    written = open_exploration(dataset)
    assert written is not None, "the marker was written for this version"
    return written


def compute_provisional_clusters(
    vectors: NDArray[np.float32], clusters: int, seed: int = 0, report: ProgressCallback = no_progress
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Cluster rows with k-means. If there are many rows, the centres are fitted on an evenly spaced sample.

    Args:
        vectors: features, (N, d).
        clusters: number of clusters.
        seed: seed of k-means.
        report: receives progress.

    Returns:
        Cluster of each row, (N,), where cluster 0 is the largest; and its distance to the centre of the cluster, (N,).
    """
    from sklearn.cluster import KMeans

    sample = vectors[:: -(-len(vectors) // MAX_KMEANS_ROWS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct images than clusters: some clusters stay empty
        model = KMeans(clusters, n_init=_KMEANS_STARTS, random_state=seed).fit(sample)
    centres = model.cluster_centers_
    found, distance = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    stage = ProgressStage("Provisional clusters", len(vectors), report)
    for start in range(0, len(vectors), _ROWS_PER_BATCH):
        chunk = vectors[start : start + _ROWS_PER_BATCH]
        part = slice(start, start + len(chunk))
        found[part] = model.predict(chunk)
        distance[part] = np.linalg.norm(chunk - centres[found[part]], axis=1)
        stage.advance(len(chunk))
    stage.finish()
    rank = np.empty(clusters, np.int64)
    rank[np.argsort(-np.bincount(found, minlength=clusters), kind="stable")] = np.arange(clusters)
    return rank[found], distance


def _keep_cluster_numbers(ids: NDArray[np.int64], clusters: NDArray[np.int64], part: Exploration) -> NDArray[np.int64]:
    """Return the clusters with the numbers, and so the colours, that most of their images have in an earlier part."""
    shared = np.isin(part.ids, ids, assume_unique=True)
    numbers = match_clusters(clusters[np.searchsorted(ids, part.ids[shared])], part.clusters[shared])
    count = part.cluster_count
    numbers = np.concatenate([numbers, np.full(count - len(numbers), -1)])
    numbers[numbers < 0] = np.setdiff1d(np.arange(count), numbers)  # clusters without images in the part
    return numbers[clusters]


def _write_arrays(
    folder: Path,
    images: TrainingImages,
    settings: ExplorationSettings,
    device: torch.device,
    report: ProgressCallback,
    part: Exploration | None,
) -> None:
    """Compute and write the arrays of an exploration; `part` is the stored exploration of a part of the images."""
    built = build_network(settings.network, len(images))
    built.network.to(device)
    inputs = load_frozen_features(built, images, settings.network, folder / "vectors.npy", fit=True, report=report)
    store_projection(folder, built.network)
    assert settings.clusters is not None
    clusters, distance = compute_provisional_clusters(inputs.vectors, settings.clusters, settings.seed, report)
    if part is not None and part.cluster_count == settings.clusters:
        clusters = _keep_cluster_numbers(images.ids, clusters, part)
    vectors = inputs.vectors
    # Maps are stored beside the arrays and named by their content: unchanged features reuse them.
    maps = folder.with_name(f"maps-{hashlib.sha256(fingerprint_features(vectors).encode()).hexdigest()[:16]}")
    maps.mkdir(exist_ok=True)
    coordinates = load_or_compute_map(vectors, settings.map, maps, report=report)
    _remove_all_except(maps, folder.parent.glob("maps-*"))
    arrays: dict[str, NDArray[Any]] = {"ids": images.ids, "cluster": clusters, "distance": distance, "map": coordinates}
    for name, array in arrays.items():
        write_file(folder / f"{name}.npy", partial(np.save, arr=array, allow_pickle=False))


def _remove_all_except(current: Path, folders: Iterable[Path]) -> None:
    """Delete the folders of earlier explorations, but not the current one."""
    for old in folders:
        if old != current:
            shutil.rmtree(old, ignore_errors=True)


def _build_metadata(
    dataset: ImageDataset, settings: ExplorationSettings, ids: NDArray[np.int64], folder: str
) -> dict[str, Any]:
    return {
        "provisional": True,
        "dataset_uid": dataset.info.uid,
        "manifest_version": get_explored_version(dataset),
        "images": hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=8).hexdigest(),
        "backbone": settings.network.model.backbone,
        "image_size": settings.network.data.image_size,
        "clusters": settings.clusters,
        "seed": settings.seed,
        "map": {"method": settings.map.method, **settings.map.relevant},
        "folder": folder,
    }
