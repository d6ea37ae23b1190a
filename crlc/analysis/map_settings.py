"""Which map is wanted, and the file that keeps it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.maps import PERPLEXITY, pca_map, tsne_map, umap_map
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Vectors, fingerprint
from crlc.errors import UsageError, disk_full_explained
from crlc.files import write_file
from crlc.progress import ProgressCallback

METHODS = ("pca", "umap", "tsne")
_VERSION = 1
"""Goes up when the same settings give another map, so that no old file is taken for a new one."""


@dataclass(frozen=True)
class MapSettings:
    """A method and what it depends on; what does not belong to the method has no influence."""

    method: str = "umap"
    """One of `METHODS`."""

    seed: int = 0
    """Of UMAP and t-SNE."""

    min_dist: float = 0.1
    """UMAP: how close points may come, from 0 to 1."""

    perplexity: float = PERPLEXITY
    """t-SNE: how many neighbours count, about; at least 1."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: it names field, value and what is allowed.
        """
        if self.method not in METHODS:
            raise UsageError(f"method = {self.method!r} is no map. Choose one of: {', '.join(METHODS)}.")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed = {self.seed} was given; it must be from 0 to {2**32 - 1}.")
        if not 0 <= self.min_dist <= 1:
            raise UsageError(f"min_dist = {self.min_dist} was given; it must be from 0 to 1.")
        if not 1 <= self.perplexity <= 1000:  # noqa: PLR2004  (more would need a graph of 3,000 neighbours)
            raise UsageError(f"perplexity = {self.perplexity} was given; it must be from 1 to 1000.")

    @property
    def relevant(self) -> dict[str, Any]:
        """The fields on which the map depends."""
        names = {"pca": (), "umap": ("seed", "min_dist"), "tsne": ("seed", "perplexity")}[self.method]
        return {name: value for name, value in asdict(self).items() if name in names}


def draw_map(
    features: NDArray[Any], settings: MapSettings, graph: Neighbours | None, report: ProgressCallback
) -> Vectors:
    """Compute the map here and now."""
    if settings.method == "pca":
        return pca_map(features, report=report)
    if settings.method == "umap":
        return umap_map(features, graph, report=report, **settings.relevant)
    return tsne_map(features, graph, report=report, **settings.relevant)


def map_file(folder: Path, features: NDArray[Any], settings: MapSettings) -> Path:
    """The file in which a folder keeps this map of these features."""
    key = json.dumps([_VERSION, fingerprint(features), settings.relevant], sort_keys=True)
    return folder / f"map-{settings.method}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"


def write_map(path: Path, places: Vectors) -> None:
    """Keep a map; complete before it is visible.

    Raises:
        DiskFullError: no space for it.
    """
    with disk_full_explained(path.parent):
        write_file(path, lambda stream: np.save(stream, places, allow_pickle=False))


def read_map(path: Path, count: int) -> Vectors | None:
    """The map of `count` images in this file; none when it is not there, or damaged: it can be computed again."""
    try:
        places = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(places, np.ndarray) or places.shape != (count, 2) or places.dtype != np.float32:
        return None
    return places
