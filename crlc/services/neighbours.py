"""Nearest images of a run: to one of its images, to the mean of several, or to a new image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.exact import Neighbours, check_neighbour_count, search_exact
from crlc.analysis.neighbours.index import NeighbourIndex
from crlc.analysis.normalization import normalize_rows
from crlc.arrays import FloatArray, ImageIds, IntArray
from crlc.errors import NotFoundError, SourceError, UsageError
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.results import open_neighbour_index
from crlc.services.analyse_run import RunAnalysis

if TYPE_CHECKING:
    import torch

    from crlc.runs.folder import RunFolder
    from crlc.training.inference import Assignments
    from crlc.training.model_file import TrainedModel

_EXTRA_RESULTS = 16
"""Number of additional results to query, because excluded images are removed from the results."""

_QUERY_GROWTH = 4


class NearestImages(NamedTuple):
    """Nearest images, nearest first, (k,) each."""

    ids: ImageIds
    similarity: FloatArray
    """Cosine similarity of the features (s in the paper's Fig. 2)."""

    confidence: FloatArray
    """Probability of the image's cluster (p in the paper's Fig. 2)."""

    clusters: IntArray
    indices: IntArray
    """Index of each image in `RunAnalysis.ids`."""


class RunNeighbours:
    """Neighbour search of one analysis. Excluded images can be queries but not results."""

    def __init__(
        self, analysis: RunAnalysis, *, exact: bool | None = None, report: ProgressCallback = no_progress
    ) -> None:
        """Open the index.

        Args:
            analysis: the analysed run.
            exact: search exactly instead of approximately; `None` to decide by the number of images.
            report: receives the progress of building an approximate index.
        """
        self._analysis = analysis
        self.index: NeighbourIndex = open_neighbour_index(analysis.run, analysis.all_z, exact=exact, report=report)
        self._left_out = analysis.left_out_rows

    def find_rows(self, ids: Sequence[int] | ImageIds) -> IntArray:
        """Return the rows of images in the arrays of the result.

        Raises:
            NotFoundError: the run has no result for one of the images.
        """
        clustering = self._analysis.clustering
        requested = np.asarray(ids, np.int64)
        index = np.minimum(np.searchsorted(clustering.ids, requested), len(clustering.ids) - 1)
        unknown = requested[clustering.ids[index] != requested]
        if len(unknown):
            raise NotFoundError(
                f"The run {clustering.run} has no result for image {unknown[0]}: the image is not part of the run, or "
                "was removed or changed since.",
                advice="Give the path of its file to use it as a new image.",
            )
        return clustering.rows[index]

    def find_nearest(self, ids: Sequence[int] | ImageIds, k: int, new: NDArray[Any] | None = None) -> NearestImages:
        """Find the images nearest to one image, or to the mean of several; the given images are left out.

        Args:
            ids: ids of the given images that belong to the run; may be empty if `new` is given.
            k: number of results.
            new: features of given images that do not belong to the run, (M, d), from `ImageEncoder`.

        Raises:
            NotFoundError: the run has no result for one of the images.
            UsageError: there is no image, or `k` is out of range.
        """
        rows = np.unique(self.find_rows(ids)) if len(ids) else np.empty(0, np.int64)
        vectors = [normalize_rows(self._analysis.all_z[rows])] if len(rows) else []
        vectors += [] if new is None or not len(new) else [normalize_rows(new)]
        if not vectors:
            raise UsageError("No image was given: at least one is needed.")
        left_out = np.union1d(self._left_out, rows)
        check_neighbour_count(k, len(self.index) - len(left_out), "other images")
        mean = normalize_rows(np.concatenate(vectors).mean(axis=0, keepdims=True, dtype=np.float64))
        found = self._search(mean, k, left_out)
        indices = np.searchsorted(self._analysis.rows, found.positions[0])
        return NearestImages(
            self._analysis.ids[indices],
            np.clip(found.similarity[0], -1, 1),
            self._analysis.confidence[indices],
            self._analysis.clusters[indices],
            indices,
        )

    def _search(self, vector: FloatArray, k: int, left_out: IntArray) -> Neighbours:
        if self.index.is_exact:
            return search_exact(self.index.features, vector, k, left_out)
        count = k + _EXTRA_RESULTS
        while True:
            count = min(count, len(self.index))
            found = self.index.query(vector, count)
            is_result = ~np.isin(found.positions[0], left_out)
            if is_result.sum() >= k or count == len(self.index):
                chosen = np.flatnonzero(is_result)[:k]
                return Neighbours(found.positions[:, chosen], found.similarity[:, chosen])
            count *= _QUERY_GROWTH


class ImageEncoder:
    """Encoder of new images with the network of a run, which is loaded on first use."""

    def __init__(self, run: RunFolder, device: torch.device) -> None:
        """Store the run and the device."""
        self._run, self._device = run, device

    @cached_property
    def _model(self) -> TrainedModel:
        from crlc.training.model_file import load_run_model

        return load_run_model(self._run, self._device)

    def encode(self, contents: Sequence[bytes], names: Sequence[str]) -> NDArray[np.float32]:
        """Return the features of image files, (M, d).

        Args:
            contents: bytes of the files.
            names: file names for error messages.

        Raises:
            NotFoundError: the run has no checkpoint.
            SourceError: a file is not a readable image.
        """
        return self.assign(contents, names).z

    def assign(self, contents: Sequence[bytes], names: Sequence[str]) -> Assignments:
        """Return the features and cluster probabilities of image files; arguments and errors as in `encode`."""
        from crlc.data.augmentation import RECIPES
        from crlc.training.images import TrainingImages
        from crlc.training.inference import assign_images
        from crlc.training.inputs import ImageInputs

        model = self._model
        squares = decode_images(contents, names, model.settings.data.image_size)
        inputs = ImageInputs(TrainingImages.from_array(squares), RECIPES["none"], self._device)
        return assign_images(model.network, inputs, inputs.images.ids, model.subhead)


def decode_images(contents: Sequence[bytes], names: Sequence[str], size: int) -> NDArray[np.uint8]:
    """Decode image files to squares, (M, size, size, 3).

    Args:
        contents: bytes of the files.
        names: file names for error messages.
        size: side of the squares in pixels.

    Raises:
        SourceError: a file is not a readable image.
    """
    from crlc.data.decode import decode_square
    from crlc.data.sources import UnreadableError

    squares = []
    for content, name in zip(contents, names, strict=True):
        try:
            squares.append(np.asarray(decode_square(content, size)[1]))
        except UnreadableError as error:
            raise SourceError(f"{to_printable(name)} is not a readable image: {error}.") from None
    return np.stack(squares)
