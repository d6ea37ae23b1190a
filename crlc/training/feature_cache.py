"""Cache of the features of a pretrained backbone, computed once for every image of a dataset and shared by its runs.

An interrupted computation keeps its finished shards (`crlc/data/feature_shards.py`), and the features of an image with
new content are computed again. If the backbone has a classifier, the most probable classes are stored beside them.
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

from crlc.analysis.class_scores import rank_classes
from crlc.arrays import IntArray
from crlc.data.feature_shards import (
    FeatureCache,
    build_feature_keys,
    get_classes_file,
    get_features_file,
    read_class_shard,
    read_shard,
)
from crlc.data.imported_vectors import VECTORS, require_whole_vectors
from crlc.files import writer_lock
from crlc.model import CrlcNetwork
from crlc.model.class_head import ImageNetClassifier
from crlc.progress import Progress, ProgressCallback, ProgressStage, no_progress
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.feature_engine import AUTO, TORCH, create_engine
from crlc.training.images import TrainingImages

FEATURES_STAGE = "Computing features"
WAITING_STAGE = "Waiting for features that another task computes"
"""Names of stages in progress reports."""

_POLL_SECONDS = 0.25
_BATCH_IMAGES = 64
_FEW_IMAGES = 200
_SHARD_ROWS = 4096
_READ_ROWS = 4096
_PREFETCHED_BATCHES = 4
_EXAMPLE_IMAGES = 2
_FLOAT16_MAX = float(torch.finfo(torch.float16).max)


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
    return build_feature_keys(images.ids, images.content_versions)


def count_missing_features(images: TrainingImages, identity: str) -> int:
    """Return the number of images whose features are not cached with their dataset.

    Args:
        images: the images.
        identity: identity of the backbone's weights.
    """
    if images.feature_folder is None:
        return len(images)
    cache = FeatureCache(get_feature_set_folder(images.feature_folder, identity, images.size))
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
    folder = get_feature_set_folder(images.feature_folder or fallback, identity, images.size)
    if world.is_rank_zero:
        _merge_parts(folder)  # left by processes that were interrupted
    world.wait_for_all()
    cache = FeatureCache(folder)
    missing = np.flatnonzero(~cache.contains(make_feature_keys(images)))
    if len(missing):
        if identity.startswith(f"{VECTORS}-"):  # no backbone can compute them again
            require_whole_vectors(cache)
        part = folder if world.size == 1 else folder / f"part-{world.rank}"
        lock = folder.with_suffix(f".{world.rank}.lock")
        waiting = Progress(WAITING_STAGE, 0, None, 0.0)
        # The preview of the app computes the same features: a training run waits for them, and uses them.
        with writer_lock(lock, f"The feature cache {folder.name}", _POLL_SECONDS, wait=partial(report, waiting)):
            own = missing[world.rank :: world.size]
            own = own[~FeatureCache(folder).contains(make_feature_keys(images)[own])]
            if len(own):  # fewer images may be missing than there are processes
                _compute_features(network, images, own, FeatureCache(part), (engine, identity), report)
        world.wait_for_all()
        if world.size > 1:
            if world.is_rank_zero:
                _merge_parts(folder)
            world.wait_for_all()
        cache = FeatureCache(folder)
    if network.classifier is not None and world.is_rank_zero:
        compute_missing_classes(cache, network.classifier)
    return BackboneFeatures(cache, images)


def get_feature_set_folder(folder: Path, identity: str, image_size: int) -> Path:
    """Return the folder of the shards of a feature set. Imported vectors do not depend on the image size.

    Args:
        folder: folder with all feature sets of a dataset.
        identity: identity of the backbone's weights.
        image_size: size of the images in pixels.
    """
    return folder / (identity if identity.startswith(f"{VECTORS}-") else f"{identity}-{image_size}")


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
    writer = _ShardWriter(cache, keys[positions], network.classifier)
    try:
        example = images.read_pixels(positions[:_EXAMPLE_IMAGES]).to(device)
        name, identity = requested
        # Converting the backbone takes longer than computing few images.
        name = TORCH if name == AUTO and len(positions) < _FEW_IMAGES else name
        engine = create_engine(name, network, example, identity)
        for found in engine.compute(_read_ahead(images, positions)):
            writer.add(found)
            stage.advance(len(found))
    finally:  # an interrupted computation keeps its finished batches
        writer.flush()
        network.train(was_training)
    stage.finish()


class _ShardWriter:
    """Collects batches of features, and stores them with their most probable classes in shards of a cache."""

    def __init__(self, cache: FeatureCache, keys: IntArray, classifier: ImageNetClassifier | None) -> None:
        self._cache, self._keys, self._classifier = cache, keys, classifier
        self._batches: list[NDArray[np.float16]] = []
        self._begin = self._end = 0

    def add(self, features: NDArray[np.float32]) -> None:
        self._batches.append(features.clip(-_FLOAT16_MAX, _FLOAT16_MAX).astype(np.float16))
        self._end += len(features)
        if self._end - self._begin >= _SHARD_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        features = np.concatenate(self._batches)
        classes = None if self._classifier is None else rank_classes(features, *self._classifier)
        self._cache.add(self._keys[self._begin : self._end], features, classes)
        self._batches.clear()
        self._begin = self._end


def compute_missing_classes(cache: FeatureCache, classifier: ImageNetClassifier) -> None:
    """Store the classes of features that an earlier version computed; much faster than the features themselves."""
    for shard, features in cache.iterate_shards_without_classes():
        cache.add_classes(shard, rank_classes(features, *classifier))


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
            loaded = read_shard(keys_file)
            if loaded is not None:
                cache.add(*loaded, read_class_shard(keys_file, len(loaded[0])))
            for file in (keys_file, get_features_file(keys_file), get_classes_file(keys_file)):
                file.unlink(missing_ok=True)
