"""Maps of a run: of all images of its result, kept in its folder. Excluding an image does not move the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crlc.analysis.map_process import MapProcess, cached_map
from crlc.analysis.map_settings import MapSettings, map_file, read_map
from crlc.analysis.maps import neighbours_wanted, place_new
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Vectors
from crlc.errors import disk_full_explained
from crlc.progress import ProgressCallback, no_progress
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.run_files import GRAPH_NEIGHBOURS, kept_graph, maps_folder
from crlc.workspace.run_neighbours import NearestImages


def map_of(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> Vectors:
    """Where each image of `analysis.ids` lies, (N, 2); computed in a process, unless the run's folder has it.

    Raises:
        MapError: the process failed.
        DiskFullError: no space to keep the map.
    """
    kept = ready_map(analysis, settings)
    if kept is not None:
        return kept
    folder, graph = _prepared(analysis, settings, report)
    return cached_map(analysis.all_z, settings, folder, graph=graph, report=report)[analysis.rows]


def ready_map(analysis: RunAnalysis, settings: MapSettings) -> Vectors | None:
    """The map, if the run's folder has it."""
    file = map_file(maps_folder(analysis.run), analysis.all_z, settings)
    places = read_map(file, len(analysis.all_z))
    return None if places is None else places[analysis.rows]


def start_map(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> MapProcess:
    """Begin a map that can be cancelled; `ready_map` has it when the process is done."""
    folder, graph = _prepared(analysis, settings, report)
    return MapProcess(analysis.all_z, settings, folder, graph=graph, report=report)


def place_on_map(places: Vectors, nearest: NearestImages) -> Vectors:
    """Where a new image goes on a map that `map_of` gave: among its neighbours, (2,)."""
    found = Neighbours(nearest.places[None], nearest.similarity[None])
    return np.asarray(place_new(places, found)[0])


def _prepared(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback) -> tuple[Path, Neighbours | None]:
    folder = maps_folder(analysis.run)
    with disk_full_explained(folder):
        folder.mkdir(exist_ok=True)
    wanted = neighbours_wanted(settings.method, len(analysis.all_z), perplexity=settings.perplexity)
    # t-SNE wants more than is kept: its process finds them itself.
    graph = kept_graph(analysis.run, analysis.all_z, report) if 0 < wanted <= GRAPH_NEIGHBOURS else None
    return folder, graph
