"""The images of a run that are nearest to one of them, to the mean of several, or to an image it has never seen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.nearest import Neighbours, exact_search
from crlc.analysis.neighbours import NeighbourIndex, check_k
from crlc.analysis.unit_rows import Rows, Vectors, unit
from crlc.errors import NotFoundError, SourceError, UsageError
from crlc.names import printable
from crlc.progress import ProgressCallback, no_progress
from crlc.workspace.run_analysis import Ids, RunAnalysis
from crlc.workspace.run_files import open_index

if TYPE_CHECKING:
    import torch

    from crlc.training.model_file import TrainedModel
    from crlc.training.run_folder import RunFolder

_SPARE = 16
_WIDER = 4


class NearestImages(NamedTuple):
    """Nearest first, (k,) each."""

    ids: Ids
    similarity: Vectors
    """The paper's s: cosine between the `z`."""

    confidence: Vectors
    """The paper's p: how sure the run is of the image's cluster."""

    clusters: Rows
    places: Rows
    """Where they stand in the `ids` of the analysis."""


class RunNeighbours:
    """Answers for one analysis of a run; excluded images can be asked about, but are nobody's neighbours."""

    def __init__(
        self, analysis: RunAnalysis, *, exact: bool | None = None, report: ProgressCallback = no_progress
    ) -> None:
        """Open the index.

        Args:
            analysis: of the run.
            exact: insist on one way; by default by the number of images.
            report: told how far building an approximate index is.
        """
        self._analysis = analysis
        self.index: NeighbourIndex = open_index(analysis.run, analysis.all_z, exact=exact, report=report)
        self._left_out = analysis.left_out

    def rows_of(self, ids: Sequence[int] | Ids) -> Rows:
        """Where images stand in the result's arrays.

        Raises:
            NotFoundError: the run has no result for one of them.
        """
        clustering = self._analysis.clustering
        wanted = np.asarray(ids, np.int64)
        place = np.minimum(np.searchsorted(clustering.ids, wanted), len(clustering.ids) - 1)
        unknown = wanted[clustering.ids[place] != wanted]
        if len(unknown):
            raise NotFoundError(
                f"The run {clustering.run} has no result for image {unknown[0]}: it is not part of the run, or is gone "
                "or another picture since. Give the path of its file to look at it as a new image."
            )
        return clustering.rows[place]

    def nearest(self, ids: Sequence[int] | Ids, k: int, new: NDArray[Any] | None = None) -> NearestImages:
        """The images nearest to one, or to the mean of several; those themselves are left out.

        Args:
            ids: images of the run.
            k: how many.
            new: `z` of images that it has never seen, (M, d), as `NewImages` has them.

        Raises:
            NotFoundError: the run has no result for one of them.
            UsageError: no image at all, or k cannot work.
        """
        rows = np.unique(self.rows_of(ids)) if len(ids) else np.empty(0, np.int64)
        vectors = [unit(self._analysis.all_z[rows])] if len(rows) else []
        vectors += [] if new is None or not len(new) else [unit(new)]
        if not vectors:
            raise UsageError("No image was given. Name at least one.")
        left_out = np.union1d(self._left_out, rows)
        check_k(k, len(self.index) - len(left_out), "other images")
        mean = unit(np.concatenate(vectors).mean(axis=0, keepdims=True, dtype=np.float64))
        found = self._search(mean, k, left_out)
        places = np.searchsorted(self._analysis.rows, found.positions[0])
        return NearestImages(
            self._analysis.ids[places],
            np.clip(found.similarity[0], -1, 1),
            self._analysis.confidence[places],
            self._analysis.clusters[places],
            places,
        )

    def _search(self, vector: Vectors, k: int, left_out: Rows) -> Neighbours:
        if self.index.exact:
            return exact_search(self.index.features, vector, k, left_out)
        asked = k + _SPARE
        while True:
            asked = min(asked, len(self.index))
            found = self.index.query(vector, asked)
            counts = ~np.isin(found.positions[0], left_out)
            if counts.sum() >= k or asked == len(self.index):
                chosen = np.flatnonzero(counts)[:k]
                return Neighbours(found.positions[:, chosen], found.similarity[:, chosen])
            asked *= _WIDER


class NewImages:
    """The network of a run, for images that it has never seen; loaded when first needed."""

    def __init__(self, run: RunFolder, device: torch.device) -> None:
        """Take the run and where to compute."""
        self._run, self._device = run, device

    @cached_property
    def _model(self) -> TrainedModel:
        from crlc.training.model_file import model_of_run

        return model_of_run(self._run, self._device)

    def z(self, contents: Sequence[bytes], names: Sequence[str]) -> NDArray[np.float32]:
        """The `z` of image files, (M, d).

        Args:
            contents: of the files.
            names: for errors.

        Raises:
            NotFoundError: the run has no checkpoint.
            SourceError: a file is no readable image.
        """
        from crlc.data.augment import RECIPES
        from crlc.data.decode import decode
        from crlc.data.sources import UnreadableError
        from crlc.training.assign import assign
        from crlc.training.images import images_from_array
        from crlc.training.inputs import ImageInputs

        model = self._model
        squares = []
        for content, name in zip(contents, names, strict=True):
            try:
                squares.append(np.asarray(decode(content, model.settings.image_size)[1]))
            except UnreadableError as error:
                raise SourceError(f"{printable(name)} is no readable image: {error}.") from None
        inputs = ImageInputs(images_from_array(np.stack(squares)), RECIPES["none"], self._device)
        return assign(model.network, inputs, inputs.images.ids, model.subhead).z
