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
    features: NDArray[np.float32],
    count: int,
    file: Path,
    report: ProgressCallback = no_progress,
    among: NDArray[np.int64] | None = None,
    *,
    exact: bool | None = None,
) -> NDArray[np.int64]:
    """Find the nearest images of each image by cosine similarity, and write them to a file.

    Args:
        features: one row per image, (N, d).
        count: number of neighbours K, fewer if there are fewer images.
        file: file for the positions of the neighbours, (N, K).
        report: called with the progress.
        among: positions of the images whose neighbours are sought, among each other; all by default. The others have
            only themselves as neighbours.
        exact: whether the search is exact; by default for few images, as `build_neighbour_graph`.

    Returns:
        Positions of the neighbours, the nearest first, (N, K).
    """
    positions = np.arange(len(features)) if among is None else among
    rows = features if len(positions) == len(features) else np.asarray(features[positions])
    nearest = build_neighbour_graph(rows, min(count, len(rows) - 1), exact=exact, report=report).positions
    found = np.repeat(np.arange(len(features))[:, None], nearest.shape[1], axis=1)
    found[positions] = positions[nearest]
    write_file(file, partial(np.save, arr=found.astype(np.int32), allow_pickle=False))
    return found


def compute_neighbour_purity(neighbours: NDArray[Any], classes: NDArray[np.int64] | None) -> float | None:
    """Return the fraction of neighbours with the same class as their image. For reporting only.

    Images whose only neighbour is the image itself do not count; see `find_neighbours`.

    Args:
        neighbours: positions of the neighbours of each image, (N, K).
        classes: class of each image, -1 where unknown, (N,).

    Returns:
        The fraction over the pairs whose classes are known; `None` if there are no such pairs.
    """
    if classes is None:
        return None
    is_other = neighbours != np.arange(len(neighbours))[:, None]
    known = is_other & (classes >= 0)[:, None] & (classes[neighbours] >= 0)
    if not known.any():
        return None
    same = classes[:, None] == classes[neighbours]
    return float(same[known].mean())
