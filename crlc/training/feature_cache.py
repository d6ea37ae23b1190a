"""Cache of the features of a pretrained backbone, computed once for every image of a dataset and shared by its runs.

The cache consists of shards that are only ever added: `<n>.npy` with features, and `<n>.keys.npy` with the id and
content version of each image, which is written last. An interrupted computation therefore keeps its finished shards,
and the features of an image with new content are computed again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.files import write_file, writer_lock
from crlc.model import CrlcNetwork
from crlc.progress import ProgressCallback, ProgressStage, no_progress
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.feature_engine import AUTO, TORCH, create_engine
from crlc.training.images import TrainingImages

FEATURES_STAGE = "Computing features"
"""Name of the stage in progress reports."""

_BATCH_IMAGES = 64
_FEW_IMAGES = 200
_SHARD_ROWS = 4096
_READ_ROWS = 4096
_PREFETCHED_BATCHES = 4
_EXAMPLE_IMAGES = 2
_VERSION_BITS = 20
_FLOAT16_MAX = float(torch.finfo(torch.float16).max)


class FeatureCache:
    """Cached features of one backbone at one image size."""

    def __init__(self, folder: Path) -> None:
        """Open all shards in a folder; the folder may not exist yet."""
        self.folder = folder
        self._shards: list[NDArray[np.float16]] = []
        self._keys, self._locations = np.empty(0, np.int64), np.empty((0, 2), np.int64)
        for keys_file in sorted(folder.glob("*.keys.npy")):
            self._open(keys_file)

    def contains(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each key of `make_feature_keys` whether the cache has its features."""
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_)
        found: NDArray[np.bool_] = self._keys[self._find(keys)] == keys
        return found

    def read(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the features of images that the cache contains, (n, d)."""
        shards, rows = self._locations[self._find(keys)].T
        features = np.empty((len(keys), self._shards[0].shape[1]), np.float32)
        for shard in np.unique(shards):
            in_shard = shards == shard
            features[in_shard] = self._shards[shard][rows[in_shard]]
        return features

    def add(self, keys: NDArray[np.int64], features: NDArray[np.float16]) -> None:
        """Store the features of more images, (n, d), in a new shard."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(file.name.split(".")[0]) for file in self.folder.glob("*.npy")), default=0)
        keys_file = self.folder / f"{number:06}.keys.npy"
        for file, array in ((self.folder / f"{number:06}.npy", features), (keys_file, keys)):
            write_file(file, partial(np.save, arr=array, allow_pickle=False))
        self._open(keys_file)

    def _open(self, keys_file: Path) -> None:
        keys = np.load(keys_file, allow_pickle=False)
        locations = np.stack([np.full(len(keys), len(self._shards)), np.arange(len(keys))], axis=1)
        self._shards.append(np.load(_get_features_file(keys_file), mmap_mode="r", allow_pickle=False))
        self._keys = np.concatenate([self._keys, keys])
        self._locations = np.concatenate([self._locations, locations])
        order = np.argsort(self._keys, kind="stable")
        self._keys, self._locations = self._keys[order], self._locations[order]

    def _find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)


class BackboneFeatures:
    """Backbone features of the images of a run, in their order."""

    def __init__(self, cache: FeatureCache, images: TrainingImages) -> None:
        """Store a cache that contains the features of all images."""
        self._cache, self._keys = cache, make_feature_keys(images)

    def __len__(self) -> int:
        """Return the number of images N."""
        return len(self._keys)

    def iterate_chunks(self) -> Iterator[Tensor]:
        """Yield all features, a few thousand rows at a time."""
        for start in range(0, len(self), _READ_ROWS):
            yield torch.from_numpy(self._cache.read(self._keys[start : start + _READ_ROWS]))


def make_feature_keys(images: TrainingImages) -> NDArray[np.int64]:
    """Return the key of each image: id and content version in one number, (N,)."""
    versions = np.zeros(len(images), np.int64) if images.content_versions is None else images.content_versions
    return (images.ids << _VERSION_BITS) | versions


def count_missing_features(images: TrainingImages, identity: str) -> int:
    """Return the number of images whose features are not cached with their dataset.

    Args:
        images: the images.
        identity: identity of the backbone's weights.
    """
    if images.feature_folder is None:
        return len(images)
    cache = FeatureCache(images.feature_folder / f"{identity}-{images.size}")
    return int((~cache.contains(make_feature_keys(images))).sum())


def load_or_compute_features(
    network: CrlcNetwork,
    images: TrainingImages,
    identity: str,
    fallback: Path,
    *,
    engine: str = TORCH,
    report: ProgressCallback = no_progress,
    world: World = SINGLE_PROCESS,
) -> BackboneFeatures:
    """Return the backbone features of all images; compute and cache those that are missing.

    Args:
        network: the network whose backbone is used.
        images: the images.
        identity: identity of the backbone's weights, which names the cache.
        fallback: folder of the cache for images that have no feature folder.
        engine: engine that computes them; see `create_engine`.
        report: called with the progress.
        world: the processes, each of which computes a part.
    """
    folder = (images.feature_folder or fallback) / f"{identity}-{images.size}"
    if world.is_rank_zero:
        _merge_parts(folder)  # left by processes that were interrupted
    world.wait_for_all()
    cache = FeatureCache(folder)
    missing = np.flatnonzero(~cache.contains(make_feature_keys(images)))
    if len(missing):
        own = missing[world.rank :: world.size]
        part = folder if world.size == 1 else folder / f"part-{world.rank}"
        with writer_lock(folder.with_suffix(f".{world.rank}.lock"), f"The feature cache {folder.name}"):
            _compute_features(network, images, own, FeatureCache(part), (engine, identity), report)
        world.wait_for_all()
        if world.size > 1:
            if world.is_rank_zero:
                _merge_parts(folder)
            world.wait_for_all()
        cache = FeatureCache(folder)
    return BackboneFeatures(cache, images)


def _compute_features(
    network: CrlcNetwork,
    images: TrainingImages,
    positions: NDArray[np.int64],
    cache: FeatureCache,
    requested: tuple[str, str],
    report: ProgressCallback,
) -> None:
    """Compute features and add them to the cache; `requested` is the engine and the identity of the weights."""
    device = network.mean.device
    keys, was_training = make_feature_keys(images), network.training
    network.eval()
    stage = ProgressStage(FEATURES_STAGE, len(positions), report)
    stage.start()  # loading the engine takes seconds, during which the page would still show the step before
    batches: list[NDArray[np.float16]] = []
    begin = done = 0
    try:
        example = images.read_pixels(positions[:_EXAMPLE_IMAGES]).to(device)
        name, identity = requested
        # Converting the backbone takes longer than computing few images.
        name = TORCH if name == AUTO and len(positions) < _FEW_IMAGES else name
        engine = create_engine(name, network, example, identity)
        for found in engine.compute(_read_ahead(images, positions)):
            batches.append(found.clip(-_FLOAT16_MAX, _FLOAT16_MAX).astype(np.float16))
            done += len(found)
            if done - begin >= _SHARD_ROWS:
                cache.add(keys[positions[begin:done]], np.concatenate(batches))
                batches.clear()
                begin = done
            stage.advance(len(found))
    finally:  # an interrupted computation keeps its finished batches
        if batches:
            cache.add(keys[positions[begin:done]], np.concatenate(batches))
        network.train(was_training)
    stage.finish()


def _read_ahead(images: TrainingImages, positions: NDArray[np.int64]) -> Iterator[Tensor]:
    """Yield batches of pixels, read by a thread while the backbone computes."""
    ready: queue.Queue[Tensor | BaseException | None] = queue.Queue(maxsize=_PREFETCHED_BATCHES)
    is_abandoned = threading.Event()

    def offer(item: Tensor | BaseException | None) -> None:
        while not is_abandoned.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def read() -> None:
        try:
            for start in range(0, len(positions), _BATCH_IMAGES):
                offer(images.read_pixels(positions[start : start + _BATCH_IMAGES]))
            offer(None)
        except BaseException as error:
            offer(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        is_abandoned.set()
        reader.join()


def _merge_parts(folder: Path) -> None:
    """Move the shards of all processes into one cache."""
    parts = sorted(folder.glob("part-*"))
    cache = FeatureCache(folder) if parts else None
    for part in parts:
        assert cache is not None
        for keys_file in sorted(part.glob("*.keys.npy")):
            features_file = _get_features_file(keys_file)
            cache.add(np.load(keys_file, allow_pickle=False), np.load(features_file, allow_pickle=False))
            keys_file.unlink()
            features_file.unlink()


def _get_features_file(keys_file: Path) -> Path:
    return keys_file.with_name(keys_file.name.replace(".keys", ""))
