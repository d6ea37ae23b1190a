"""How long looking at a data set before training takes on this computer, from a few timed images."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.analysis.map_process import cached_map
from crlc.config import ImportOptions
from crlc.data.augment import to_images
from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode
from crlc.data.pixels import stored_sizes
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError
from crlc.training.features import FeatureCache, keys_of
from crlc.training.images import images_of
from crlc.training.materials import BuiltNetwork, build_network
from crlc.training.presets import DEFAULT_CLUSTERS
from crlc.workspace.exploration import ExplorationSettings, provisional_clusters, read_exploration

_TIMED_IMAGES = 32
_TIMED_ROWS = 2_000
_SAMPLED_ROWS = 50_000
"""k-means looks at no more."""


@dataclass(frozen=True)
class ExplorationTime:
    """Seconds of each step; 0 for what is there already."""

    decoding: float = 0.0
    features: float = 0.0
    clusters: float = 0.0
    map: float = 0.0

    @property
    def seconds(self) -> float:
        """All together."""
        return self.decoding + self.features + self.clusters + self.map


def exploration_time(dataset: ImageDataset, settings: ExplorationSettings, device: torch.device) -> ExplorationTime:
    """Time a little of each step, and multiply.

    Args:
        dataset: which.
        settings: what would be wanted.
        device: where the backbone would compute.

    Raises:
        SourceError: the originals are needed, but not there.
    """
    if read_exploration(dataset) is not None:
        return ExplorationTime()
    size = settings.network.image_size
    summary = dataset.summary()
    built = build_network(settings.network, summary.readable)
    decoding = 0.0
    if size in stored_sizes(dataset.folder, complete=True):
        images = images_of(dataset, size)
        pixels = images.sample(_TIMED_IMAGES)
        cache = FeatureCache(dataset.folder / "features" / f"{built.identity}-{size}")
        missing = int((~cache.has(keys_of(images))).sum())
    else:
        missing = summary.readable
        pixels, per_image = _decoded(dataset, size)
        decoding = per_image * missing / ImportOptions().processes
    features = _seconds_per_vector(built, pixels, device) * missing if missing else 0.0
    count = settings.clusters or len(summary.classes) or DEFAULT_CLUSTERS
    rows = _rows_like(built, min(_TIMED_ROWS, summary.readable))
    return ExplorationTime(
        decoding, features, _cluster_seconds(rows, count, summary.readable), _map_seconds(rows, settings)
    )


def _decoded(dataset: ImageDataset, size: int) -> tuple[Tensor, float]:
    """Some images decoded from their originals, and the seconds that each took."""
    squares: list[NDArray[np.uint8]] = []
    source, records = dataset.source, dataset.sample(_TIMED_IMAGES)  # opened before the clock runs
    started = time.perf_counter()
    for record in records:
        try:
            squares.append(np.array(decode(source.read(record.path), size)[1].convert("RGB")))
        except UnreadableError:
            continue
    if not squares:
        raise SourceError(f"No original of {dataset.name} could be read, and they are needed at {size} px.")
    return torch.from_numpy(np.stack(squares)), (time.perf_counter() - started) / len(squares)


def _seconds_per_vector(built: BuiltNetwork, pixels: Tensor, device: torch.device) -> float:
    network = built.network.to(device).eval()
    batch = to_images(pixels.to(device))
    with torch.inference_mode():
        network.backbone_vectors(batch[:4]).cpu()  # the first time takes longer
        started = time.perf_counter()
        network.backbone_vectors(batch).cpu()  # waits for a GPU
    return (time.perf_counter() - started) / len(batch)


def _rows_like(built: BuiltNetwork, count: int) -> NDArray[np.float32]:
    """Rows of the length that k-means and the map will see."""
    dimensions = built.network.rl_head.first.in_features
    return np.random.default_rng(0).standard_normal((max(2, count), dimensions), dtype=np.float32)


def _cluster_seconds(rows: NDArray[np.float32], clusters: int, images: int) -> float:
    started = time.perf_counter()
    provisional_clusters(rows, min(clusters, len(rows)))
    return (time.perf_counter() - started) * max(1.0, min(images, _SAMPLED_ROWS) / len(rows))


def _map_seconds(rows: NDArray[np.float32], settings: ExplorationSettings) -> float:
    """Mostly the start of its process."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        started = time.perf_counter()
        cached_map(rows, settings.map, Path(place))
        return time.perf_counter() - started
