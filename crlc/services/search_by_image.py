"""Search by image: the images of a run or of an exploration that are most similar to a new image file.

The file is only read; nothing of it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crlc.analysis.neighbours.exact import search_exact
from crlc.analysis.normalization import normalize_rows
from crlc.arrays import FloatArray, ImageIds, IntArray
from crlc.clusters.probabilities import merge_probabilities
from crlc.errors import UsageError

if TYPE_CHECKING:
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.exploration import Exploration
    from crlc.services.explored_network import ExplorationEncoder
    from crlc.services.neighbours import ImageEncoder, RunNeighbours


class ImageFile(NamedTuple):
    """A file that is searched for."""

    content: bytes
    name: str
    """File name, for error messages."""


class ImageFileMatches(NamedTuple):
    """Images similar to a new image, most similar first, and the cluster of the new image."""

    ids: ImageIds
    similarity: FloatArray
    """Cosine similarity of the features, (k,)."""

    cluster: int
    confidence: float | None
    """Probability of the cluster; `None` for the provisional clusters of an exploration."""


def search_run_by_image(
    analysis: RunAnalysis, neighbours: RunNeighbours, encoder: ImageEncoder, file: ImageFile, k: int
) -> ImageFileMatches:
    """Find the images of a run that are most similar to a file.

    The cluster of the file is the one that assigning new images gives: predicted by the network, after manual merges.

    Args:
        analysis: the analysed run.
        neighbours: neighbour search of the run.
        encoder: encoder with the network of the run.
        file: the file.
        k: number of results; fewer if there are fewer images.

    Raises:
        SourceError: the file is not a readable image.
        CrlcError: the network of the run cannot be loaded, or all images are excluded.
    """
    _require_images(len(analysis.ids))
    found = encoder.assign([file.content], [file.name])
    nearest = neighbours.find_nearest([], min(k, len(analysis.ids)), found.z)
    q = merge_probabilities(found.q, analysis.edited.merged)[0]
    return ImageFileMatches(nearest.ids, nearest.similarity, int(q.argmax()), float(q.max()))


def search_exploration_by_image(
    exploration: Exploration, kept: IntArray, encoder: ExplorationEncoder, file: ImageFile, k: int
) -> ImageFileMatches:
    """Find the images of an exploration that are most similar to a file; its cluster has the nearest centre.

    Args:
        exploration: the exploration.
        kept: rows of the exploration that may be results, ascending; those of excluded images are left out.
        encoder: encoder with the network of the exploration.
        file: the file.
        k: number of results; fewer if there are fewer images.

    Raises:
        SourceError: the file is not a readable image.
        CrlcError: the network cannot be loaded, or all images are excluded.
    """
    _require_images(len(kept))
    vector = encoder.encode(file.content, file.name)
    left_out = np.setdiff1d(np.arange(len(exploration.ids)), kept, assume_unique=True)
    found = search_exact(exploration.vectors, normalize_rows(vector), min(k, len(kept)), left_out)
    numbers, centres = _compute_centres(exploration)
    cluster = int(numbers[np.linalg.norm(centres - vector, axis=1).argmin()])
    similarity = np.clip(found.similarity[0], -1, 1).astype(np.float32)
    return ImageFileMatches(exploration.ids[found.positions[0]], similarity, cluster, None)


def _require_images(count: int) -> None:
    if not count:
        raise UsageError("There is no image to compare with: all images are excluded.")


def _compute_centres(exploration: Exploration) -> tuple[IntArray, FloatArray]:
    """Return the numbers and means of the clusters: the centre of a k-means cluster is the mean of its images."""
    numbers, positions = np.unique(exploration.clusters, return_inverse=True)
    means = [exploration.vectors[positions == index].mean(axis=0) for index in range(len(numbers))]
    return numbers, np.stack(means)
