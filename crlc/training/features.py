"""Vectors of a pretrained backbone, computed once for every image, kept with the data set and used by every run.

They lie in shards that only ever are added: `<n>.npy` with the vectors, and `<n>.keys.npy` with the id and
content version of each, written last. So an interrupted computation keeps what it finished, and an image
with new content is computed again.
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
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.training.distributed import ALONE, World
from crlc.training.images import TrainingImages

_BATCH = 64
_SHARD = 4096
_CHUNK = 4096
_BATCHES_AHEAD = 4
_EXAMPLES = 2
_VERSION_BITS = 20
_LARGEST = torch.finfo(torch.float16).max


class FeatureCache:
    """The vectors of one backbone at one image size."""

    def __init__(self, folder: Path) -> None:
        """Read which images are there."""
        self.folder = folder
        self._shards: list[NDArray[np.float16]] = []
        self._keys, self._places = np.empty(0, np.int64), np.empty((0, 2), np.int64)
        for keys_file in sorted(folder.glob("*.keys.npy")):
            self._open(keys_file)

    def has(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which images, by `keys_of`, are there."""
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_)
        found: NDArray[np.bool_] = self._keys[self._find(keys)] == keys
        return found

    def read(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors of some images that are there, (n, d)."""
        places = self._places[self._find(keys)]
        rows = np.empty((len(keys), self._shards[0].shape[1]), np.float32)
        for shard in np.unique(places[:, 0]):
            here = places[:, 0] == shard
            rows[here] = self._shards[shard][places[here, 1]]
        return rows

    def add(self, keys: NDArray[np.int64], vectors: NDArray[np.float16]) -> None:
        """Keep vectors of more images, (n, d)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(file.name.split(".")[0]) for file in self.folder.glob("*.npy")), default=0)
        keys_file = self.folder / f"{number:06}.keys.npy"
        for file, array in ((self.folder / f"{number:06}.npy", vectors), (keys_file, keys)):
            write_file(file, partial(np.save, arr=array, allow_pickle=False))
        self._open(keys_file)

    def _open(self, keys_file: Path) -> None:
        keys = np.load(keys_file, allow_pickle=False)
        vectors = np.load(keys_file.with_name(keys_file.name.replace(".keys", "")), mmap_mode="r", allow_pickle=False)
        places = np.stack([np.full(len(keys), len(self._shards)), np.arange(len(keys))], axis=1)
        self._shards.append(vectors)
        self._keys, self._places = np.concatenate([self._keys, keys]), np.concatenate([self._places, places])
        order = np.argsort(self._keys, kind="stable")
        self._keys, self._places = self._keys[order], self._places[order]

    def _find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)


class BackboneFeatures:
    """The backbone's vectors of the images of a run, by position."""

    def __init__(self, cache: FeatureCache, images: TrainingImages) -> None:
        """Take a cache that has all of them."""
        self._cache, self._keys = cache, keys_of(images)

    def __len__(self) -> int:
        """N."""
        return len(self._keys)

    def chunks(self) -> Iterator[Tensor]:
        """All vectors, a few thousand at a time."""
        for start in range(0, len(self), _CHUNK):
            yield torch.from_numpy(self._cache.read(self._keys[start : start + _CHUNK]))


def keys_of(images: TrainingImages) -> NDArray[np.int64]:
    """One number for id and content version of each image, (N,)."""
    versions = np.zeros(len(images), np.int64) if images.versions is None else images.versions
    return (images.ids << _VERSION_BITS) | versions


def backbone_features(
    network: CrlcNetwork,
    images: TrainingImages,
    identity: str,
    fallback: Path,
    *,
    report: ProgressCallback = no_progress,
    world: World = ALONE,
) -> BackboneFeatures:
    """The vectors of all images; those that are not kept yet are computed now.

    Args:
        network: its backbone is used as it is.
        images: of which vectors are wanted.
        identity: names the backbone's weights.
        fallback: where to keep them if the images have no place for it.
        report: told how far it is.
        world: each process computes a part.
    """
    folder = (images.features or fallback) / f"{identity}-{images.size}"
    if world.is_writer:
        _merge_parts(folder)  # of processes that were cut off
    world.wait()
    cache = FeatureCache(folder)
    missing = np.flatnonzero(~cache.has(keys_of(images)))
    if len(missing):
        mine = missing[world.rank :: world.size]
        part = folder if world.size == 1 else folder / f"part-{world.rank}"
        with writer_lock(folder.with_suffix(f".{world.rank}.lock"), f"The feature cache {folder.name}"):
            _compute(network, images, mine, FeatureCache(part), report)
        world.wait()
        if world.size > 1:
            if world.is_writer:
                _merge_parts(folder)
            world.wait()
        cache = FeatureCache(folder)
    return BackboneFeatures(cache, images)


@torch.inference_mode()
def _compute(
    network: CrlcNetwork,
    images: TrainingImages,
    positions: NDArray[np.int64],
    cache: FeatureCache,
    report: ProgressCallback,
) -> None:
    device = network.mean.device
    keys, was_training = keys_of(images), network.training
    network.eval()
    stage = Stage("Computing features", len(positions), report)
    vectors: list[NDArray[np.float16]] = []
    begin = done = 0
    try:
        to_vectors = network.fast_backbone(images.pixels(positions[:_EXAMPLES]).to(device))
        for pixels in _read_ahead(images, positions):
            found = to_vectors(pixels.to(device, non_blocking=True)).clamp(-_LARGEST, _LARGEST)
            vectors.append(found.to(torch.float16).cpu().numpy())
            done += len(pixels)
            if done - begin >= _SHARD:
                cache.add(keys[positions[begin:done]], np.concatenate(vectors))
                vectors.clear()
                begin = done
            stage.advance(len(pixels))
    finally:  # whoever stops it finds again what was computed
        if vectors:
            cache.add(keys[positions[begin:done]], np.concatenate(vectors))
        network.train(was_training)
    stage.finish()


def _read_ahead(images: TrainingImages, positions: NDArray[np.int64]) -> Iterator[Tensor]:
    """Batches of pixels, read by a thread while the backbone is at work."""
    ready: queue.Queue[Tensor | BaseException | None] = queue.Queue(maxsize=_BATCHES_AHEAD)
    given_up = threading.Event()

    def offer(item: Tensor | BaseException | None) -> None:
        while not given_up.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None

    def read() -> None:
        try:
            for start in range(0, len(positions), _BATCH):
                offer(images.pixels(positions[start : start + _BATCH]))
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
        given_up.set()
        reader.join()


def _merge_parts(folder: Path) -> None:
    """Take the shards of all processes into one cache."""
    parts = sorted(folder.glob("part-*"))
    cache = FeatureCache(folder) if parts else None
    for part in parts:
        assert cache is not None
        for keys_file in sorted(part.glob("*.keys.npy")):
            vectors_file = keys_file.with_name(keys_file.name.replace(".keys", ""))
            cache.add(np.load(keys_file, allow_pickle=False), np.load(vectors_file, allow_pickle=False))
            keys_file.unlink()
            vectors_file.unlink()
