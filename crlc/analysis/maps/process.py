"""Computation of a map in a child process, which can be cancelled and frees its memory at the end."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from crlc.analysis.maps.projections import count_needed_neighbours
from crlc.analysis.maps.settings import MapSettings, get_map_path, read_map
from crlc.analysis.maps.worker_process import PREPARED_WORKER
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.normalization import check_features
from crlc.array_files import load_array
from crlc.arrays import Features, FloatArray
from crlc.errors import CrlcError, explain_disk_full
from crlc.files import replace_file
from crlc.progress import Progress, ProgressCallback, no_progress
from crlc.subprocesses import read_last_line


class MapError(CrlcError):
    """The process that computed a map failed or was killed."""


def load_or_compute_map(
    features: Features,
    settings: MapSettings,
    folder: Path,
    *,
    graph: Neighbours | None = None,
    report: ProgressCallback = no_progress,
) -> FloatArray:
    """Return the map stored in a folder; compute it in a child process and store it if it is missing.

    Args:
        features: (N, d), normalised or not.
        settings: method and parameters.
        folder: folder of stored maps.
        graph: neighbours of each row; computed when None.
        report: receives the progress.

    Returns:
        Coordinates (N, 2).

    Raises:
        UsageError: the features are not a table.
        DiskFullError: the disk is full.
        MapError: the process failed.
    """
    check_features(features)
    stored = read_map(get_map_path(folder, features, settings), len(features))
    if stored is not None:
        return stored
    if graph is None:
        # This process has usually imported torch, which takes the child process a second.
        needed = count_needed_neighbours(settings.method, len(features), perplexity=settings.perplexity)
        graph = build_neighbour_graph(features, needed, report=report) if needed else None
    with MapProcess(features, settings, folder, graph=graph, report=report) as process:
        coordinates = process.wait()
    assert coordinates is not None  # only this function could cancel it
    return coordinates


class MapProcess:
    """A child process that computes a map. `cancel`, or leaving the context, ends it and removes its files."""

    def __init__(
        self,
        features: Features,
        settings: MapSettings,
        folder: Path,
        *,
        graph: Neighbours | None = None,
        report: ProgressCallback = no_progress,
    ) -> None:
        """Start the process.

        Args:
            features: (N, d), normalised or not.
            settings: method and parameters.
            folder: folder for the map.
            graph: neighbours of each row; computed when None.
            report: receives the progress, in another thread.

        Raises:
            UsageError: the features are not a table.
            DiskFullError: the disk is full.
        """
        check_features(features)
        self.file = get_map_path(folder, features, settings)
        """The file that will store the map."""
        self.progress: Progress | None = None
        """The latest report."""
        self._count = len(features)
        self._report = report
        self._error: MapError | None = None
        self._cancelled = False
        with explain_disk_full(folder):
            # Not in the system's temporary folder, which may be small or in memory.
            self._inputs = Path(tempfile.mkdtemp(dir=folder.absolute(), prefix=".map-inputs-"))
            try:
                job = {
                    "features": str(_find_or_save_features(features, self._inputs / "features.npy")),
                    "graph": None if graph is None else _save_graph(graph, self._inputs),
                    "settings": asdict(settings),
                    "target": str(self._inputs / self.file.name),
                }
                self._worker = PREPARED_WORKER.assign_job(json.dumps(job).encode())
            except BaseException:
                shutil.rmtree(self._inputs, ignore_errors=True)
                raise
        self._reader = threading.Thread(target=self._read_reports, daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the map is still being computed."""
        return self._reader.is_alive()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._worker.process.pid

    def wait(self, seconds: float | None = None) -> FloatArray | None:
        """Wait for the map.

        Args:
            seconds: time limit; None for no limit.

        Returns:
            Coordinates (N, 2), or None when the process was cancelled or the time limit was reached.

        Raises:
            MapError: the process failed.
        """
        self._reader.join(seconds)
        if self.is_running or self._cancelled:
            return None
        if self._error is not None:
            raise self._error
        coordinates = read_map(self.file, self._count)
        if coordinates is None:
            raise MapError(
                f"{self.file} was removed or damaged right after it was written.", advice="Compute the map again."
            )
        return coordinates

    def cancel(self) -> None:
        """End the process, unless it has finished; further calls have no effect."""
        if self.is_running:
            self._cancelled = True
            self._worker.process.terminate()
        if threading.current_thread() is not self._reader:  # a progress callback may cancel
            self._reader.join()

    def __enter__(self) -> MapProcess:
        """Return the process; leaving the context ends it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.cancel()

    def _read_reports(self) -> None:
        """Read reports until the process ends, then move the map to its file."""
        assert self._worker.process.stdout is not None
        try:
            for line in self._worker.process.stdout:
                content = json.loads(line)
                if "error" in content:
                    self._error = MapError(content["error"], advice=content["advice"])
                else:
                    self.progress = Progress.from_json(content)
                    self._report(self.progress)
        except BaseException as error:  # raised by the callback; the process must end too
            self._error = MapError(f"The progress callback of the map failed: {error!r}.")
            self._worker.process.terminate()
        code = self._worker.close()
        if code == 0 and self._error is None and not self._cancelled:
            try:
                replace_file(self._inputs / self.file.name, self.file)
            except OSError as error:
                self._error = MapError(
                    f"The map cannot be moved to {self.file} ({error}).", advice="Check the folder and try again."
                )
        elif self._error is None:
            self._error = self._make_failure(code)
        self._worker.log.close()
        shutil.rmtree(self._inputs, ignore_errors=True)
        PREPARED_WORKER.refill()

    def _make_failure(self, code: int) -> MapError:
        last_line = read_last_line(self._worker.log)
        reason = f": {last_line}" if last_line else ", perhaps for lack of memory"
        return MapError(
            f"The process that computed the map ended with code {code}{reason}.",
            advice="Try again, or choose another map.",
        )


def _find_or_save_features(features: Features, new_file: Path) -> Path:
    """Return the .npy file that the features are a memory map of, or save them to a new file."""
    name = getattr(features, "filename", None)
    if name is not None and Path(name).suffix == ".npy":
        with suppress(OSError, ValueError):
            whole = load_array(Path(name), is_mapped=True)
            # A slice or a reversed view of a memory map also has the file's name.
            if (whole.shape, whole.dtype, whole.strides) == (features.shape, features.dtype, features.strides):
                return Path(name).absolute()
    np.save(new_file, features, allow_pickle=False)
    return new_file


def _save_graph(graph: Neighbours, folder: Path) -> list[str]:
    np.save(folder / "positions.npy", graph.positions, allow_pickle=False)
    np.save(folder / "similarity.npy", graph.similarity, allow_pickle=False)
    return [str(folder / "positions.npy"), str(folder / "similarity.npy")]
