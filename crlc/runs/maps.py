"""Maps of the current features of a run, stored in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from crlc.analysis.maps.process import MapProcess, load_or_compute_map
from crlc.analysis.maps.projections import count_needed_neighbours
from crlc.analysis.maps.settings import MAP_METHODS, MapSettings, get_map_path, read_map
from crlc.analysis.neighbours.exact import Neighbours
from crlc.arrays import FloatArray
from crlc.errors import explain_disk_full
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.results import GRAPH_NEIGHBOURS, get_maps_folder, load_or_build_graph


def load_any_map(run: RunFolder, z: NDArray[Any]) -> FloatArray | None:
    """Return a stored map of the features `z` with default settings, (N, 2), or `None` if there is none.

    Of several maps, UMAP is preferred to t-SNE, and t-SNE to PCA.
    """
    maps = (load_run_map(run, z, MapSettings(method)) for method in MAP_METHODS)
    return next((coordinates for coordinates in maps if coordinates is not None), None)


def load_run_map(run: RunFolder, z: NDArray[Any], settings: MapSettings) -> FloatArray | None:
    """Return the stored map of the features `z` with these settings, (N, 2), or `None` if there is none.

    Args:
        run: run that stores the map.
        z: features of its result, (N, D); a map of other features is not returned.
        settings: method and parameters of the map.
    """
    return read_map(get_map_path(get_maps_folder(run), z, settings), len(z))


def load_or_compute_run_map(
    run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback = no_progress
) -> FloatArray:
    """Return the map of the features of a run. If it is not stored yet, compute it in a child process and store it.

    Args:
        run: run that stores the map.
        z: features of its result, (N, D).
        settings: method and parameters of the map.
        report: receives the progress.

    Returns:
        Coordinates, (N, 2).

    Raises:
        MapError: the child process failed.
        DiskFullError: there is no space for the map.
    """
    stored = load_run_map(run, z, settings)
    if stored is not None:
        return stored
    folder, graph = _prepare_inputs(run, z, settings, report)
    return load_or_compute_map(z, settings, folder, graph=graph, report=report)


def start_run_map(
    run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback = no_progress
) -> MapProcess:
    """Start computing a map in a child process, which can be cancelled. Afterwards `load_run_map` returns the map.

    Args:
        run: run that stores the map.
        z: features of its result, (N, D).
        settings: method and parameters of the map.
        report: receives the progress.
    """
    folder, graph = _prepare_inputs(run, z, settings, report)
    return MapProcess(z, settings, folder, graph=graph, report=report)


def _prepare_inputs(
    run: RunFolder, z: NDArray[Any], settings: MapSettings, report: ProgressCallback
) -> tuple[Path, Neighbours | None]:
    folder = get_maps_folder(run)
    with explain_disk_full(folder):
        folder.mkdir(exist_ok=True)
    needed = count_needed_neighbours(settings.method, len(z), perplexity=settings.perplexity)
    # t-SNE needs more neighbours than are stored: its child process searches for them.
    return folder, load_or_build_graph(run, z, report) if 0 < needed <= GRAPH_NEIGHBOURS else None
