"""Maps of the images of an analysis. A map is of the whole result: excluding an image does not move the others."""

from __future__ import annotations

import numpy as np

from crlc.analysis.map_process import MapProcess
from crlc.analysis.map_settings import MapSettings
from crlc.analysis.maps import place_new
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Vectors
from crlc.progress import ProgressCallback, no_progress
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.run_maps import ready_run_map, run_map, start_run_map
from crlc.workspace.run_neighbours import NearestImages


def map_of(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> Vectors:
    """Where each image of `analysis.ids` lies, (N, 2); computed in a process, unless the run's folder has it.

    Raises:
        MapError: the process failed.
        DiskFullError: no space to keep the map.
    """
    return run_map(analysis.run, analysis.all_z, settings, report)[analysis.rows]


def ready_map(analysis: RunAnalysis, settings: MapSettings) -> Vectors | None:
    """The map, if the run's folder has it."""
    places = ready_run_map(analysis.run, analysis.all_z, settings)
    return None if places is None else places[analysis.rows]


def start_map(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> MapProcess:
    """Begin a map that can be cancelled; `ready_map` has it when the process is done."""
    return start_run_map(analysis.run, analysis.all_z, settings, report)


def place_on_map(places: Vectors, nearest: NearestImages) -> Vectors:
    """Where a new image goes on a map that `map_of` gave: among its neighbours, (2,)."""
    found = Neighbours(nearest.places[None], nearest.similarity[None])
    return np.asarray(place_new(places, found)[0])
