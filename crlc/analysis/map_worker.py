"""What runs inside the process that computes a map: one job from standard input, reports as lines of JSON.

The process ends when its standard input does, so a killed caller leaves no orphan.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from crlc.analysis.map_settings import MapSettings, draw_map, write_map
from crlc.analysis.nearest import Neighbours
from crlc.errors import CrlcError
from crlc.progress import Progress


def main() -> None:
    """Read the job, compute, write the map."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller
    # Reports go out by a private copy of standard output, so that a stray print cannot spoil them.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_caller, args=(Path(job["target"]).parent,), daemon=True).start()
    try:
        _work(job, answers)
    except (CrlcError, MemoryError) as error:
        _say(answers, {"error": str(error) or "There is not enough memory for this map."})
        sys.exit(1)


def _work(job: dict[str, Any], answers: IO[str]) -> None:
    features = np.load(job["features"], mmap_mode="r", allow_pickle=False)
    graph = None
    if job["graph"] is not None:
        graph = Neighbours(*(np.load(path, mmap_mode="r", allow_pickle=False) for path in job["graph"]))

    def report(progress: Progress) -> None:
        _say(answers, asdict(progress))

    places = draw_map(features, MapSettings(**job["settings"]), graph, report)
    write_map(Path(job["target"]), places)


def _say(answers: IO[str], content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _end_with_caller(inputs: Path) -> None:
    """When the caller is gone, nobody else removes what it put there."""
    sys.stdin.read()
    shutil.rmtree(inputs, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
