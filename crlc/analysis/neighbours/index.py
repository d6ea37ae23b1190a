"""Index for nearest-neighbour queries among feature rows: exact if that is fast, else approximate.

The recall of an approximate index is measured on a sample when it is built. Image ids and files are handled elsewhere.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from crlc.analysis.neighbours.exact import Neighbours, check_neighbour_count, search_exact, search_index
from crlc.analysis.neighbours.ivf import IvfCells, build_ivf_index
from crlc.analysis.normalization import check_features, normalize_rows
from crlc.arrays import Features, FloatArray
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, no_progress

EXACT_INDEX_LIMIT = 300_000
"""Maximum number of rows with exact queries by default: a query reads every row once (0.1 s)."""

_RECALL_NEIGHBOURS = 10


class NeighbourIndex:
    """Index of feature rows for nearest-neighbour queries. An exact index consists of the features only."""

    def __init__(self, features: Features, faiss_index: Any | None, recall: float) -> None:
        """Store the parts; use `build`, or `crlc.analysis.neighbours.index_file.load_index`."""
        self.features = features
        self.faiss_index = faiss_index
        """The approximate FAISS index; None when queries are exact."""
        self.recall = recall
        """Recall of the ten nearest neighbours, measured on a sample; 1 when exact."""

    @classmethod
    def build(
        cls, features: Features, *, exact: bool | None = None, report: ProgressCallback = no_progress
    ) -> NeighbourIndex:
        """Build an index; an exact one takes no time.

        Args:
            features: (N, d), normalised or not.
            exact: whether queries are exact; by default up to `EXACT_INDEX_LIMIT` rows.
            report: receives the progress.

        Raises:
            UsageError: the features are not a table.
        """
        check_features(features)
        if len(features) <= EXACT_INDEX_LIMIT if exact is None else exact:
            return cls(features, None, 1.0)
        index = build_ivf_index(features, report)
        if len(features) == 1:
            return cls(features, index, 1.0)
        k = min(_RECALL_NEIGHBOURS, len(features) - 1)
        index.nprobe, recall = IvfCells(index).count_probes_for_queries(features, k)
        return cls(features, index, recall)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.features)

    @property
    def is_exact(self) -> bool:
        """Whether queries compare with every row."""
        return self.faiss_index is None

    def query(self, vectors: NDArray[Any], k: int) -> Neighbours:
        """Return the k rows nearest to each vector.

        Args:
            vectors: (Q, d), normalised or not.
            k: number of neighbours, from 1 to N.

        Raises:
            UsageError: k or the shape of the vectors is not allowed.
        """
        check_features(vectors)
        if vectors.shape[1] != self.features.shape[1]:
            raise UsageError(
                f"Vectors of {vectors.shape[1]} dimensions are not allowed: "
                f"the index has {self.features.shape[1]} dimensions.",
                advice="Compute the vectors with the model of the same run.",
            )
        check_neighbour_count(k, len(self), "rows")
        return self._search(normalize_rows(vectors), k)

    def _search(self, vectors: FloatArray, k: int) -> Neighbours:
        if self.faiss_index is None:
            return search_exact(self.features, vectors, k)
        return search_index(self.faiss_index, self.features, vectors, k)
