"""Files of the features of a dataset: shards of feature vectors and, beside them, of the most probable classes.

Shards are only ever added: `<n>.npy` with features, `<n>.classes.npy` with the classes of the same images if the
backbone has a classifier, and `<n>.keys.npy` with the id and content version of each image, which is written last. An
interrupted computation therefore keeps its finished shards. Damaged shards are ignored, so that their features are
computed again. Earlier versions wrote no classes: they can be computed from the features later. Reading needs no torch,
whose import takes seconds.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.array_files import load_array
from crlc.arrays import BoolArray, ImageIds, IntArray
from crlc.errors import DamagedError
from crlc.files import write_file

RANKED_CLASSES = 32
"""Number of classes stored per image, 4 bytes each: 5 % of the size of the features."""

CLASS_SCORES = np.dtype([("number", "<u2"), ("probability", "<f2")])
"""One class of an image: its number, and its probability."""

ClassScores = NDArray[Any]
"""The most probable classes of images, the most probable first: (N, K) of type `CLASS_SCORES`."""

_VERSION_BITS = 20
_MATRIX_AXES = 2
_FEATURE_TYPES = (np.float16, np.float32)
_WRONG_KIND_CODES = (errno.EISDIR, errno.ELOOP, errno.ENOTDIR)
"""Codes of the system for a folder or a link to itself in the place of a file."""


class FeatureCache:
    """Cached features of one backbone at one image size."""

    def __init__(self, folder: Path) -> None:
        """Open all shards in a folder; the folder may not exist yet."""
        self.folder = folder
        self.damaged_files: list[Path] = []
        """Key files of the shards that cannot be read."""

        self._shards: list[NDArray[np.float16]] = []
        self._keys_files: list[Path] = []
        self._shard_keys: list[IntArray] = []
        self._index: _ShardIndex | None = None
        for keys_file in sorted(folder.glob("*.keys.npy")):
            self._open(keys_file)

    def contains(self, keys: IntArray) -> BoolArray:
        """Return for each key of `build_feature_keys` whether the cache has its features."""
        return self._get_index().find(keys).is_known

    def read(self, keys: IntArray) -> NDArray[np.float32]:
        """Return the features of images that the cache contains, (n, d)."""
        _, shards, rows = self._get_index().find(keys)
        features = np.empty((len(keys), self._shards[0].shape[1]), np.float32)
        for shard in np.unique(shards):
            in_shard = shards == shard
            features[in_shard] = self._shards[shard][rows[in_shard]]
        return features

    def read_classes(self, keys: IntArray) -> ClassScores:
        """Return the most probable classes of images, (n, K); images without stored classes have probabilities of 0."""
        scores = np.zeros((len(keys), RANKED_CLASSES), CLASS_SCORES)
        is_known, shards, rows = self._get_index().find(keys)
        for shard in np.unique(shards[is_known]):
            stored = read_class_shard(self._keys_files[shard], len(self._shards[shard]))
            if stored is not None:
                in_shard = is_known & (shards == shard)
                scores[in_shard] = stored[rows[in_shard]]
        return scores

    def iterate_shards_without_classes(self) -> Iterator[tuple[int, NDArray[np.float16]]]:
        """Yield number and features of each shard whose classes are not stored."""
        for number, keys_file in enumerate(self._keys_files):
            if read_class_shard(keys_file, len(self._shards[number])) is None:
                yield number, self._shards[number]

    def add(self, keys: IntArray, features: NDArray[Any], classes: ClassScores | None = None) -> None:
        """Store the features of more images, (n, d), in a new shard, with their classes if they are known.

        Those of backbones have half precision; imported vectors may be float32.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(file.name.split(".")[0]) for file in self.folder.glob("*.npy")), default=0)
        keys_file = self.folder / f"{number:06}.keys.npy"
        _write_array(get_features_file(keys_file), features)
        if classes is not None:
            _write_array(get_classes_file(keys_file), classes)
        _write_array(keys_file, keys)
        self._open(keys_file)

    def add_classes(self, shard: int, classes: ClassScores) -> None:
        """Store the classes of the images of a shard."""
        _write_array(get_classes_file(self._keys_files[shard]), classes)

    def _open(self, keys_file: Path) -> None:
        loaded = read_shard(keys_file)
        if loaded is None or (self._shards and loaded[1].shape[1] != self._shards[0].shape[1]):
            self.damaged_files.append(keys_file)
            return
        keys, features = loaded
        self._shards.append(features)
        self._keys_files.append(keys_file)
        self._shard_keys.append(keys)
        self._index = None

    def _get_index(self) -> _ShardIndex:
        # Built once for all shards, not with each of them: a million images in 244 shards took 10 s to open.
        if self._index is None:
            self._index = _ShardIndex(self._shard_keys)
        return self._index


class _Locations(NamedTuple):
    """Places of some images in the shards, (n,) each."""

    is_known: BoolArray
    """Whether a shard has the image; the other two are meaningless for an image without one."""

    shards: IntArray
    rows: IntArray
    """Row in the shard."""


class _ShardIndex:
    """Sorted keys of all images in some shards."""

    def __init__(self, shard_keys: Sequence[IntArray]) -> None:
        lengths = [len(keys) for keys in shard_keys]
        keys = np.concatenate([*shard_keys, np.empty(0, np.int64)])
        order = np.argsort(keys, kind="stable")  # of an image in two shards, the first counts
        self._keys = keys[order]
        self._shards = np.repeat(np.arange(len(lengths)), lengths)[order]
        self._rows = np.concatenate([*map(np.arange, lengths), np.empty(0, np.int64)])[order]

    def find(self, keys: IntArray) -> _Locations:
        """Return the places of images."""
        if not len(self._keys):
            nowhere = np.zeros(len(keys), np.int64)
            return _Locations(np.zeros(len(keys), np.bool_), nowhere, nowhere)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return _Locations(self._keys[at] == keys, self._shards[at], self._rows[at])


def build_feature_keys(ids: ImageIds, content_versions: IntArray | None) -> IntArray:
    """Return the key of each image: id and content version in one number, (N,).

    Args:
        ids: ids of the images.
        content_versions: version in which the content of each image was imported; `None` if there is only one.
    """
    return (ids << _VERSION_BITS) | (0 if content_versions is None else content_versions)


def get_features_file(keys_file: Path) -> Path:
    """Return the file with the features of a shard."""
    return keys_file.with_name(keys_file.name.replace(".keys", ""))


def get_classes_file(keys_file: Path) -> Path:
    """Return the file with the most probable classes of a shard; a shard of an earlier version has none."""
    return keys_file.with_name(keys_file.name.replace(".keys", ".classes"))


def read_shard(keys_file: Path) -> tuple[IntArray, NDArray[Any]] | None:
    """Return the keys of a shard, and its features, memory-mapped; `None` if it is damaged.

    Raises:
        OSError: the user has no permission to read it, or the disk fails.
    """
    try:
        keys, features = load_array(keys_file), load_array(get_features_file(keys_file), is_mapped=True)
    except (ValueError, FileNotFoundError):
        return None
    except OSError as error:
        if error.errno in _WRONG_KIND_CODES:
            return None
        raise
    if keys.ndim != 1 or keys.dtype != np.int64:
        return None
    is_matrix = features.ndim == _MATRIX_AXES and features.dtype in _FEATURE_TYPES
    return (keys, features) if is_matrix and len(features) == len(keys) else None


def read_class_shard(keys_file: Path, rows: int) -> ClassScores | None:
    """Return the classes of a shard, memory-mapped; `None` if they are missing or damaged."""
    try:
        found: ClassScores = load_array(get_classes_file(keys_file), is_mapped=True)
    except (OSError, ValueError):
        return None
    return found if found.shape == (rows, RANKED_CLASSES) and found.dtype == CLASS_SCORES else None


def _write_array(file: Path, array: NDArray[Any]) -> None:
    if file.is_dir():
        raise DamagedError(f"{file} is a folder, but must be a file.", advice="Delete it: the file is computed again.")
    write_file(file, partial(np.save, arr=array, allow_pickle=False))
