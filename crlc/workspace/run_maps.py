"""Maps of a run's present features, kept in its folder: which there are, and how one is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from crlc.analysis.map_process import MapProcess, cached_map
from crlc.analysis.map_settings import MapSettings, map_file, read_map
from crlc.analysis.maps import neighbours_wanted
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Vectors
from crlc.errors import disk_full_explained
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder
from crlc.workspace.run_files import GRAPH_NEIGHBOURS, kept_graph, maps_folder

_LIKED = ("umap", "tsne", "pca")


def kept_map(run: RunFolder, z: NDArray[Any]) -> Vectors | None:
    """A map of the run's present features that was computed before, (N, 2); none when there is none.

    Only maps with the usual settings count: UMAP before t-SNE before PCA.
    """
    maps = (ready_run_map(run, z, MapSettings(method)) for method in _LIKED)
    return next((places for places in maps if places is not None), None)


def ready_run_map(run: RunFolder, z: NDArray[Any], settings: MapSettings) -> Vectors | None:
    """The map with these settings, if the run's folder has it."""
    return read_map(map_file(maps_folder(run), z, settings), len(z))


def run_map(run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback = no_progress) -> Vectors:
    """A map of the run's present features, (N, 2); computed in a process and kept when it is not there yet.

    Raises:
        MapError: the process failed.
        DiskFullError: no space to keep the map.
    """
    kept = ready_run_map(run, z, settings)
    if kept is not None:
        return kept
    folder, graph = _prepared(run, z, settings, report)
    return cached_map(z, settings, folder, graph=graph, report=report)


def start_run_map(
    run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback = no_progress
) -> MapProcess:
    """Begin a map that can be cancelled; `ready_run_map` has it when the process is done."""
    folder, graph = _prepared(run, z, settings, report)
    return MapProcess(z, settings, folder, graph=graph, report=report)


def _prepared(
    run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback
) -> tuple[Path, Neighbours | None]:
    folder = maps_folder(run)
    with disk_full_explained(folder):
        folder.mkdir(exist_ok=True)
    wanted = neighbours_wanted(settings.method, len(z), perplexity=settings.perplexity)
    # t-SNE wants more than is kept: its process finds them itself.
    return folder, kept_graph(run, z, report) if 0 < wanted <= GRAPH_NEIGHBOURS else None
