"""Where a run keeps its maps, and which of them is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from crlc.analysis.map_process import cached_map
from crlc.analysis.map_settings import MapSettings, map_file, read_map
from crlc.analysis.unit_rows import Vectors
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder

_LIKED = ("umap", "tsne", "pca")


def maps_folder(run: RunFolder) -> Path:
    """The folder of a run's maps; it may not be there yet."""
    return run.path / "maps"


def kept_map(run: RunFolder, z: NDArray[Any]) -> Vectors | None:
    """A map of the run's present features that was computed before, (N, 2); none when there is none.

    Only maps with the usual settings count: UMAP before t-SNE before PCA.
    """
    files = (map_file(maps_folder(run), z, MapSettings(method)) for method in _LIKED)
    return next((places for file in files if (places := read_map(file, len(z))) is not None), None)


def run_map(run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback = no_progress) -> Vectors:
    """A map of the run's present features, (N, 2); computed and kept when it is not there yet."""
    folder = maps_folder(run)
    folder.mkdir(exist_ok=True)
    return cached_map(z, settings, folder, report=report)
