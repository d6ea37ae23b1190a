"""Settings of a two-dimensional map, and the file that stores the map."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crlc.analysis.normalization import fingerprint_features
from crlc.array_files import load_array
from crlc.arrays import Features, FloatArray
from crlc.errors import AccessError, UsageError, explain_disk_full
from crlc.files import write_file

MAP_METHODS = {"umap": "UMAP", "tsne": "t-SNE", "pca": "PCA"}
"""Map methods and their display names, in order of preference."""

DEFAULT_MAP_METHOD = "umap"

DEFAULT_PERPLEXITY = 30.0
_VERSION = 1
"""Increase it when stored maps must not be used any more, for example because they are wrong. Version 1 includes maps
that umap-learn computed: they are as good, and a new map would move the images that the user has already seen."""

_MAX_PERPLEXITY = 1000
"""Higher values would need a graph with more than 3,000 neighbours per image."""


@dataclass(frozen=True)
class MapSettings:
    """A map method with its parameters; parameters of other methods have no effect."""

    method: str = DEFAULT_MAP_METHOD
    """One of `MAP_METHODS`."""

    seed: int = 0
    """Seed of UMAP and t-SNE."""

    min_dist: float = 0.1
    """UMAP: minimum distance between points, from 0 to 1."""

    perplexity: float = DEFAULT_PERPLEXITY
    """t-SNE: effective number of neighbours, at least 1."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: a value is not allowed.
        """
        if self.method not in MAP_METHODS:
            raise UsageError(f"method={self.method!r} is not allowed: it must be one of {', '.join(MAP_METHODS)}.")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed={self.seed} is not allowed: it must be from 0 to {2**32 - 1}.")
        if not 0 <= self.min_dist <= 1:
            raise UsageError(f"min_dist={self.min_dist} is not allowed: it must be from 0 to 1.")
        if not 1 <= self.perplexity <= _MAX_PERPLEXITY:
            raise UsageError(f"perplexity={self.perplexity} is not allowed: it must be from 1 to {_MAX_PERPLEXITY}.")

    @property
    def relevant(self) -> dict[str, Any]:
        """The fields that have an effect on the map."""
        names = {"pca": (), "umap": ("seed", "min_dist"), "tsne": ("seed", "perplexity")}[self.method]
        return {name: value for name, value in asdict(self).items() if name in names}


def get_map_path(folder: Path, features: Features, settings: MapSettings) -> Path:
    """Return the file in `folder` for the map of these features with these settings."""
    key = json.dumps([_VERSION, fingerprint_features(features), settings.relevant], sort_keys=True)
    return folder / f"map-{settings.method}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"


def write_map(path: Path, coordinates: FloatArray) -> None:
    """Write a map file atomically.

    Raises:
        DiskFullError: the disk is full.
    """
    with explain_disk_full(path.parent):
        write_file(path, lambda stream: np.save(stream, coordinates, allow_pickle=False))


def read_map(path: Path, count: int) -> FloatArray | None:
    """Read a map file.

    Args:
        path: path from `get_map_path`.
        count: number of images on the map.

    Returns:
        Coordinates (count, 2), or None when the file is missing or damaged: the map can be computed again.

    Raises:
        AccessError: the user has no permission to read the file.
    """
    try:
        coordinates = load_array(path)
    except PermissionError:
        raise AccessError.for_path(path, "read") from None
    except (OSError, ValueError):
        return None
    if coordinates.shape != (count, 2) or coordinates.dtype != np.float32:
        return None
    return coordinates
