"""A map computed in a process of its own: it can be cancelled, and its memory is free again afterwards.

Not `multiprocessing`, which would run the caller's main module again: in Streamlit that is the page itself.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.map_settings import MapSettings, map_file, read_map
from crlc.analysis.nearest import Neighbours
from crlc.analysis.unit_rows import Vectors, check_features
from crlc.errors import CrlcError, disk_full_explained
from crlc.progress import Progress, ProgressCallback, no_progress

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class MapError(CrlcError):
    """The process that computed a map failed, or was killed."""


def cached_map(
    features: NDArray[Any],
    settings: MapSettings,
    folder: Path,
    *,
    graph: Neighbours | None = None,
    report: ProgressCallback = no_progress,
) -> Vectors:
    """The map that the folder keeps; computed in a process and kept, when there is none yet.

    Args:
        features: (N, d); may be a memory map.
        settings: which map.
        folder: where maps are kept.
        graph: neighbours that are known already, or none.
        report: told how far it is.

    Raises:
        UsageError: the features are no table.
        DiskFullError: no space for the map.
        MapError: the process failed.
    """
    check_features(features)
    kept = read_map(map_file(folder, features, settings), len(features))
    if kept is not None:
        return kept
    with MapProcess(features, settings, folder, graph=graph, report=report) as process:
        places = process.wait()
    assert places is not None  # nobody else could cancel it
    return places


class MapProcess:
    """One map on its way. Leaving it as a context, or `cancel`, ends the process; nothing half-done stays."""

    def __init__(
        self,
        features: NDArray[Any],
        settings: MapSettings,
        folder: Path,
        *,
        graph: Neighbours | None = None,
        report: ProgressCallback = no_progress,
    ) -> None:
        """Start the process; reports come from a thread of ours."""
        check_features(features)
        self.file = map_file(folder, features, settings)
        """Where the map will be."""
        self.progress: Progress | None = None
        """The newest report."""
        self._count = len(features)
        self._report = report
        self._error: str | None = None
        self._cancelled = False
        with disk_full_explained(folder):
            # Beside the target, not in the system's place for temporary files, which may be small or memory.
            self._inputs = Path(tempfile.mkdtemp(dir=folder, prefix=".map-inputs-"))
            try:
                job = {
                    "features": str(_as_file(features, self._inputs / "features.npy")),
                    "graph": None if graph is None else _save_graph(graph, self._inputs),
                    "settings": asdict(settings),
                    "target": str(self._inputs / self.file.name),
                }
                self._log = (self._inputs / "log").open("w+b")
                self._process = _start(self._log)
            except BaseException:
                shutil.rmtree(self._inputs, ignore_errors=True)
                raise
        assert self._process.stdin is not None
        with suppress(OSError):  # it died already; `wait` says of what
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def running(self) -> bool:
        """Whether it is still computed."""
        return self._listener.is_alive()

    def wait(self, seconds: float | None = None) -> Vectors | None:
        """The map, when it is there; none when it was cancelled or `seconds` went by.

        Raises:
            MapError: the process failed, and why.
        """
        self._listener.join(seconds)
        if self.running or self._cancelled:
            return None
        if self._error is not None:
            raise MapError(self._error)
        places = read_map(self.file, self._count)
        if places is None:
            raise MapError(f"{self.file} was removed or damaged right after it was written. Ask for the map again.")
        return places

    def cancel(self) -> None:
        """End the process now, unless it is done; without effect when called again."""
        if self.running:
            self._cancelled = True
            self._process.terminate()
        if threading.current_thread() is not self._listener:  # a callback may cancel, too
            self._listener.join()

    def __enter__(self) -> MapProcess:
        """Use as a context that ends the process."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.cancel()

    def _listen(self) -> None:
        """Follow the reports to the end, then put the map in place."""
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        try:
            for line in self._process.stdout:
                content = json.loads(line)
                if "error" in content:
                    self._error = content["error"]
                else:
                    self.progress = Progress(**content)
                    self._report(self.progress)
        except BaseException as error:  # of the callback: it must not leave a process behind
            self._error = f"The report of a map's progress failed: {error!r}."
            self._process.terminate()
        code = self._process.wait()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        if code == 0 and self._error is None and not self._cancelled:
            try:
                os.replace(self._inputs / self.file.name, self.file)
            except OSError as error:
                self._error = f"The map could not be put at {self.file} ({error}). Check the folder, then try again."
        elif self._error is None:
            self._error = self._last_words(code)
        self._log.close()
        shutil.rmtree(self._inputs, ignore_errors=True)

    def _last_words(self, code: int) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ", perhaps for lack of memory"
        return f"The process that computed the map ended with code {code}{said}. Try again, or choose another map."


def _start(log: Any) -> subprocess.Popen[bytes]:
    paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        # -P: a numpy.py in the folder where somebody stands must not be what is imported.
        [sys.executable, "-P", "-m", "crlc.analysis.map_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        start_new_session=True,
    )


def _as_file(features: NDArray[Any], spare: Path) -> Path:
    """The file of which features are the memory map, or a new one."""
    name = getattr(features, "filename", None)
    if name is not None and Path(name).suffix == ".npy":
        with suppress(OSError, ValueError):
            whole = np.load(name, mmap_mode="r", allow_pickle=False)
            # A part or a turned view of it still knows the file's name.
            if (whole.shape, whole.dtype, whole.strides) == (features.shape, features.dtype, features.strides):
                return Path(name)
    np.save(spare, features, allow_pickle=False)
    return spare


def _save_graph(graph: Neighbours, folder: Path) -> list[str]:
    np.save(folder / "positions.npy", graph.positions, allow_pickle=False)
    np.save(folder / "similarity.npy", graph.similarity, allow_pickle=False)
    return [str(folder / "positions.npy"), str(folder / "similarity.npy")]
