"""Neighbour pairs of the second stage: the nearest images of each image in feature space."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.files import write_file
from crlc.progress import ProgressCallback, no_progress


def find_neighbours(
    features: NDArray[np.float32], count: int, file: Path, report: ProgressCallback = no_progress
) -> NDArray[np.int64]:
    """Find the nearest images of each image by cosine similarity, and write them to a file.

    Args:
        features: one row per image, (N, d).
        count: number of neighbours K, at most N - 1.
        file: file for the positions of the neighbours, (N, K).
        report: called with the progress.

    Returns:
        Positions of the neighbours, the nearest first, (N, K).
    """
    found = build_neighbour_graph(features, min(count, len(features) - 1), report=report).positions
    write_file(file, partial(np.save, arr=found.astype(np.int32), allow_pickle=False))
    return found


def compute_neighbour_purity(neighbours: NDArray[Any], classes: NDArray[np.int64] | None) -> float | None:
    """Return the fraction of neighbours with the same class as their image. For reporting only.

    Args:
        neighbours: positions of the neighbours of each image, (N, K).
        classes: class of each image, -1 where unknown, (N,).

    Returns:
        The fraction over the pairs whose classes are known; `None` if there are no such pairs.
    """
    if classes is None:
        return None
    known = (classes >= 0)[:, None] & (classes[neighbours] >= 0)
    if not known.any():
        return None
    same = classes[:, None] == classes[neighbours]
    return float(same[known].mean())
