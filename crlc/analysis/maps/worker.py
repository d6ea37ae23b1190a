"""Main module of the process that computes a map: reads a job from standard input and reports progress as JSON lines.

The process ends when its standard input closes, so that it does not outlive a caller that is killed. With
`--prepare` it imports and compiles everything that a UMAP map needs before it reads the job.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import IO, Any

import numpy as np

from crlc.analysis.maps.projections import UMAP_NEIGHBOURS, compute_map, compute_umap_map
from crlc.analysis.maps.settings import MapSettings, write_map
from crlc.analysis.maps.worker_process import PREPARE_OPTION
from crlc.analysis.neighbours.exact import Neighbours
from crlc.array_files import load_array
from crlc.errors import explain_system_error
from crlc.progress import Progress

_PREPARED_ROWS = 32


def main() -> None:
    """Read the job, compute the map and write it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller
    # Reports use a private copy of standard output, which a print in a library cannot corrupt.
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if PREPARE_OPTION in sys.argv:
        _prepare()
    line = sys.stdin.readline()
    if not line:  # the caller ended, or does not need the process any more
        return
    job = json.loads(line)
    job_folder = Path(job["target"]).parent
    threading.Thread(target=_exit_with_caller, args=(job_folder,), daemon=True).start()
    try:
        _compute(job, reports)
    except BrokenPipeError:  # the caller was killed, and this thread noticed it first
        _remove_job_and_exit(job_folder)
    except Exception as error:
        explained = explain_system_error(error, job_folder)
        if explained is None:
            raise
        _send(reports, {"error": explained.message, "advice": explained.advice})
        sys.exit(1)


def _prepare() -> None:
    """Compute a tiny UMAP map with a given graph; searching for neighbours would import torch."""
    rows = np.arange(_PREPARED_ROWS)
    positions = (rows[:, None] + np.arange(1, UMAP_NEIGHBOURS)) % _PREPARED_ROWS
    similarity = np.broadcast_to(np.linspace(1, 0, UMAP_NEIGHBOURS - 1, dtype=np.float32), positions.shape)
    features = np.stack([np.cos(rows), np.sin(rows)], axis=1).astype(np.float32)
    compute_umap_map(features, Neighbours(positions, similarity), epochs=1)


def _compute(job: dict[str, Any], reports: IO[str]) -> None:
    features = load_array(Path(job["features"]), is_mapped=True)
    graph = None
    if job["graph"] is not None:
        graph = Neighbours(*(load_array(Path(path), is_mapped=True) for path in job["graph"]))

    def report(progress: Progress) -> None:
        _send(reports, progress.to_json())

    coordinates = compute_map(features, MapSettings(**job["settings"]), graph, report)
    write_map(Path(job["target"]), coordinates)


def _send(reports: IO[str], content: dict[str, Any]) -> None:
    reports.write(json.dumps(content) + "\n")
    reports.flush()


def _exit_with_caller(job_folder: Path) -> None:
    """Wait until the caller closes the pipe, then remove the folder of the job and exit."""
    sys.stdin.read()
    _remove_job_and_exit(job_folder)


def _remove_job_and_exit(job_folder: Path) -> None:
    """Remove the folder of the job, which a killed caller cannot do, and end the process."""
    shutil.rmtree(job_folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
