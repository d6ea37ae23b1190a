"""Maps of analysed runs. A map covers the whole result, so that excluding an image does not move the others."""

from __future__ import annotations

import numpy as np

from crlc.analysis.maps.process import MapProcess
from crlc.analysis.maps.projections import place_new_images
from crlc.analysis.maps.settings import MapSettings
from crlc.analysis.neighbours.exact import Neighbours
from crlc.arrays import FloatArray
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.maps import load_or_compute_run_map, load_run_map, start_run_map
from crlc.services.analyse_run import RunAnalysis
from crlc.services.neighbours import NearestImages


def ensure_map(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> FloatArray:
    """Return the coordinates of `analysis.ids`, (N, 2). If the map is not stored, compute it in a child process.

    Args:
        analysis: the analysed run.
        settings: method and parameters of the map.
        report: receives the progress.

    Raises:
        MapError: the child process failed.
        DiskFullError: there is no space to store the map.
    """
    return load_or_compute_run_map(analysis.run, analysis.all_z, settings, report)[analysis.rows]


def load_map(analysis: RunAnalysis, settings: MapSettings) -> FloatArray | None:
    """Return the coordinates of `analysis.ids` on a stored map, (N, 2), or `None` if the map is not stored."""
    coordinates = load_run_map(analysis.run, analysis.all_z, settings)
    return None if coordinates is None else coordinates[analysis.rows]


def start_map(analysis: RunAnalysis, settings: MapSettings, report: ProgressCallback = no_progress) -> MapProcess:
    """Start computing a map in a child process, which can be cancelled. Afterwards `load_map` returns the map."""
    return start_run_map(analysis.run, analysis.all_z, settings, report)


def place_on_map(coordinates: FloatArray, nearest: NearestImages) -> FloatArray:
    """Interpolate the coordinates of a new image from its nearest images, (2,).

    Args:
        coordinates: map of the run, as `ensure_map` returns it.
        nearest: nearest images of the new image.
    """
    neighbours = Neighbours(nearest.indices[None], nearest.similarity[None])
    return np.asarray(place_new_images(coordinates, neighbours)[0])
