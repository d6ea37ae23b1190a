"""Stored exploration of a dataset: the result, and reading it without torch, whose import takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.maps.settings import read_map
from crlc.arrays import FloatArray, ImageIds
from crlc.data.dataset import ImageDataset
from crlc.data.imported_vectors import VECTORS_PREFIX
from crlc.errors import DamagedError
from crlc.files import load_required_array, read_json

KIND, VERSION = "exploration", 1
MARKER = "exploration.json"
_ADVICE = "Delete it; it is computed again when needed."
_MAX_COMPARISONS = 64
_comparisons: dict[tuple[str, int, int, int], bool] = {}
"""Results of `_has_same_images`: a page asks with every update, and 100,000 images would take 0.1 s."""

_ARRAYS = {"ids": (1, "i"), "cluster": (1, "iu"), "distance": (1, "f"), "vectors": (2, "f")}
"""Arrays beside the map, with their number of dimensions and the kinds of their NumPy types."""


@dataclass(frozen=True)
class Exploration:
    """Result of an exploration, with one row per image. The clusters are provisional: nothing was trained."""

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    """Projected features, (N, d), memory-mapped."""

    clusters: NDArray[np.int64]
    """k-means cluster of each image; cluster 0 is the largest, or was the largest of the first part."""

    distance: NDArray[np.float32]
    """Distance to the centre of its cluster; typical images have small distances."""

    coordinates: FloatArray
    """Map coordinates, (N, 2)."""

    metadata: dict[str, Any]
    """Content of `exploration.json`: version and images of the dataset, clusters, seed, map and backbone."""

    @property
    def is_partial(self) -> bool:
        """Whether features of further images are still to be computed."""
        return "of" in self.metadata

    @property
    def features_name(self) -> str:
        """Name of the features that were clustered, for people."""
        is_imported = str(self.metadata.get("backbone", "")).startswith(VECTORS_PREFIX)
        return "imported vectors" if is_imported else "pretrained image features"

    @property
    def cluster_count(self) -> int:
        """Number of clusters."""
        return int(self.metadata["clusters"])


class _MapEntries(TypedDict):
    method: str


class _RequiredExplorationEntries(TypedDict):
    dataset_uid: str
    manifest_version: int
    folder: str
    clusters: int
    map: _MapEntries


class _ExplorationEntries(_RequiredExplorationEntries, total=False):
    backbone: str
    image_size: int
    seed: int
    of: int


def read_exploration(dataset: ImageDataset) -> Exploration | None:
    """Read the stored exploration; `None` if there is none, it is damaged, or images were added, changed or removed.

    It still contains images that were excluded after it was computed.

    Raises:
        AccessError: the user has no permission to read it.
    """
    try:
        return open_exploration(dataset)
    except (DamagedError, ValueError):
        return None


def open_exploration(dataset: ImageDataset) -> Exploration | None:
    """Read the stored exploration; `None` if images were added, changed or removed by a later import.

    Raises:
        DamagedError, ValueError: there is none, or it is damaged.
        AccessError: the user has no permission to read it.
    """
    marker = read_json(dataset.folder / MARKER, KIND, VERSION, _ADVICE, _ExplorationEntries)
    metadata = {name: value for name, value in marker.items() if name not in ("kind", "version")}
    if metadata["dataset_uid"] != dataset.info.uid:
        return None
    if Path(metadata["folder"]).name != metadata["folder"]:
        raise DamagedError(f"{dataset.folder / MARKER} is damaged: it names a file elsewhere.", advice=_ADVICE)
    folder = dataset.exploration_folder / metadata["folder"]
    loaded = {
        name: load_required_array(folder / f"{name}.npy", _ADVICE, is_mapped=name == "vectors") for name in _ARRAYS
    }
    for name, array in loaded.items():
        dimensions, kinds = _ARRAYS[name]
        is_typed = array.dtype.kind in kinds and array.dtype.isnative
        if not is_typed or array.ndim != dimensions or len(array) != len(loaded["ids"]):
            raise DamagedError(
                f"{folder / name}.npy is damaged: it has the type {array.dtype} and the shape {array.shape}.",
                advice=_ADVICE,
            )
    ids, clusters = loaded["ids"], loaded["cluster"]
    coordinates = read_map(folder / "map.npy", len(ids))
    is_numbered = not len(ids) or 0 <= clusters.min() <= clusters.max() < metadata["clusters"]
    if coordinates is None or not is_numbered or (len(ids) and (ids[0] < 1 or np.any(np.diff(ids) <= 0))):
        raise DamagedError(f"{folder} is damaged or not complete.", advice=_ADVICE)
    if not _has_same_images(dataset, metadata["manifest_version"], get_explored_version(dataset), loaded["ids"]):
        return None
    return Exploration(ids, loaded["vectors"], clusters, loaded["distance"], coordinates, metadata)


def _has_same_images(dataset: ImageDataset, explored: int, current: int, ids: ImageIds) -> bool:
    """Return whether the images of an exploration are those of the dataset, after any further imports.

    An import of another image size, for another backbone, changes no image.

    Args:
        dataset: the dataset.
        explored: version of the dataset that was explored.
        current: current version of the dataset.
        ids: images of the exploration.
    """
    if explored == current:
        return True
    key = (dataset.info.uid, explored, current, hash(ids.tobytes()))
    if key not in _comparisons:
        is_same = explored < current and not dataset.has_content_since(explored)
        _comparisons[key] = is_same and bool((dataset.read_content_versions(ids) > 0).all())
        while len(_comparisons) > _MAX_COMPARISONS:
            _comparisons.pop(next(iter(_comparisons)), None)
    return _comparisons[key]


def get_explored_version(dataset: ImageDataset) -> int:
    """Return the dataset version that an exploration belongs to; 1 already while the first import runs."""
    return max(1, dataset.version)
