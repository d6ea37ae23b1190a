"""Estimated duration of an exploration on this computer, from a few timed images."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.analysis.maps.process import load_or_compute_map
from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode_square
from crlc.data.options import ImportOptions
from crlc.data.pixel_store import list_stored_sizes
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError
from crlc.services.exploration import read_exploration
from crlc.services.explore import MAX_KMEANS_ROWS, ExplorationSettings, compute_provisional_clusters
from crlc.services.vectors import apply_vectors_to_network
from crlc.training.feature_cache import count_missing_features
from crlc.training.images import load_images
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.presets import choose_cluster_count
from crlc.training.time_estimate import time_features

_TIMED_IMAGES = 32
_TIMED_ROWS = 2_000


@dataclass(frozen=True)
class ExplorationTime:
    """Estimated duration of each step in seconds; 0 for steps that are done already."""

    decoding: float = 0.0
    features: float = 0.0
    clusters: float = 0.0
    map: float = 0.0

    @property
    def seconds(self) -> float:
        """Sum of all steps."""
        return self.decoding + self.features + self.clusters + self.map


def estimate_exploration(dataset: ImageDataset, settings: ExplorationSettings, device: torch.device) -> ExplorationTime:
    """Estimate the duration of an exploration by timing a small part of each step.

    Args:
        dataset: dataset to explore.
        settings: options of the exploration.
        device: device that computes the features.

    Raises:
        SourceError: the original images are needed but missing.
    """
    stored = read_exploration(dataset)
    if stored is not None and not stored.is_partial:
        return ExplorationTime()
    settings = replace(settings, network=apply_vectors_to_network(dataset, settings.network))
    size = settings.network.data.image_size
    summary = dataset.summarize()
    built = build_network(settings.network, summary.readable)
    decoding = 0.0
    if size in list_stored_sizes(dataset.folder, complete=True):
        images = load_images(dataset, size)
        pixels = images.sample_pixels(_TIMED_IMAGES)
        missing = count_missing_features(images, built.identity)
    else:
        missing = summary.readable
        pixels, per_image = _time_decoding(dataset, size)
        decoding = per_image * missing / ImportOptions().worker_count
    features = time_features(built, pixels, settings.network.run.engine, device) * missing if missing else 0.0
    count = settings.clusters or choose_cluster_count(len(summary.classes), summary.readable)
    rows = _make_rows(built, min(_TIMED_ROWS, summary.readable))
    return ExplorationTime(decoding, features, _time_clusters(rows, count, summary.readable), _time_map(rows, settings))


def _time_decoding(dataset: ImageDataset, size: int) -> tuple[Tensor, float]:
    """Decode some original images; return their pixels and the seconds per image."""
    squares: list[NDArray[np.uint8]] = []
    source, records = dataset.source, dataset.sample_records(_TIMED_IMAGES)  # opened before the time is measured
    started = time.perf_counter()
    for record in records:
        try:
            squares.append(np.array(decode_square(source.read(record.path), size)[1].convert("RGB")))
        except UnreadableError:
            continue
    if not squares:
        raise SourceError(f"No original image of {dataset.name} can be read, and they are needed at {size} px.")
    return torch.from_numpy(np.stack(squares)), (time.perf_counter() - started) / len(squares)


def _make_rows(built: BuiltNetwork, count: int) -> NDArray[np.float32]:
    """Return random rows with as many columns as the features that k-means and the map use."""
    dimensions = built.network.rl_head.first.in_features
    return np.random.default_rng(0).standard_normal((max(2, count), dimensions), dtype=np.float32)


def _time_clusters(rows: NDArray[np.float32], clusters: int, images: int) -> float:
    started = time.perf_counter()
    compute_provisional_clusters(rows, min(clusters, len(rows)))
    return (time.perf_counter() - started) * max(1.0, min(images, MAX_KMEANS_ROWS) / len(rows))


def _time_map(rows: NDArray[np.float32], settings: ExplorationSettings) -> float:
    """Time a map of few rows; most of the time is the start of the child process."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        started = time.perf_counter()
        load_or_compute_map(rows, settings.map, Path(folder))
        return time.perf_counter() - started
