"""Nearest images by cosine similarity, with FAISS: the graph of all images, and queries. No maps, no ids, no files.

Rows are known by their numbers. Exact where that is quick; above that by an approximate index whose recall is
measured on a sample when it is built, and which searches wider until the recall is good enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cell_graph import approximate_graph
from crlc.analysis.cells import Cells, build_cells
from crlc.analysis.nearest import Neighbours, completed_search, exact_search, without_self
from crlc.analysis.unit_rows import CHUNK_ROWS, Rows, Vectors, check_features, unit, unit_chunks
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, Stage, no_progress

__all__ = ["EXACT_GRAPH_LIMIT", "EXACT_INDEX_LIMIT", "NeighbourIndex", "Neighbours", "check_k", "neighbour_graph"]

EXACT_GRAPH_LIMIT = 25_000
"""The graph of all images is exact up to here: its time grows with the square (8 s for that many on one core)."""

EXACT_INDEX_LIMIT = 300_000
"""Single queries are exact up to here: one reads every row once (0.1 s)."""

_QUERIES_AT_ONCE = 4096
_RECALL_AT = 10


def neighbour_graph(
    features: NDArray[Any], k: int, *, exact: bool | None = None, report: ProgressCallback = no_progress
) -> Neighbours:
    """The k nearest other rows of every row.

    Args:
        features: (N, d), of unit norm or not; may be a memory map.
        k: how many, at least 1 and less than N.
        exact: insist on one way; by default exact up to `EXACT_GRAPH_LIMIT` rows.
        report: told how far it is.

    Raises:
        UsageError: k or the shape cannot work.
    """
    check_features(features)
    check_k(k, len(features) - 1, "rows other than the row itself")
    exact = len(features) <= EXACT_GRAPH_LIMIT if exact is None else exact
    index = NeighbourIndex.build(features, exact=exact, report=report)
    return index.graph(k, report=report)


def check_k(k: int, most: int, what: str) -> None:
    """Refuse a number of neighbours that cannot be had.

    Raises:
        UsageError: it says which k is allowed.
    """
    if not 1 <= k <= most:
        raise UsageError(f"k = {k} neighbours were asked for; k must be from 1 to {most} (there are {most} {what}).")


class NeighbourIndex:
    """Answers which rows are nearest. Exact ones keep nothing but the features they were given."""

    def __init__(self, features: NDArray[Any], approximate: Any | None, recall: float) -> None:
        """Use `build`, or `crlc.analysis.index_file.load_index`."""
        self.features = features
        self.approximate = approximate
        """The FAISS index, or none when every row is looked at."""
        self.recall = recall
        """Of the ten nearest, measured on a sample; 1 when exact."""

    @classmethod
    def build(
        cls, features: NDArray[Any], *, exact: bool | None = None, report: ProgressCallback = no_progress
    ) -> NeighbourIndex:
        """Get ready for queries: at once when exact, by default up to `EXACT_INDEX_LIMIT` rows.

        Raises:
            UsageError: the features are no table.
        """
        check_features(features)
        if len(features) <= EXACT_INDEX_LIMIT if exact is None else exact:
            return cls(features, None, 1.0)
        index = build_cells(features, report)
        if len(features) == 1:
            return cls(features, index, 1.0)
        index.nprobe, recall = Cells(index).needed_for_queries(features, min(_RECALL_AT, len(features) - 1))
        return cls(features, index, recall)

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.features)

    @property
    def exact(self) -> bool:
        """Whether every row is looked at."""
        return self.approximate is None

    def query(self, vectors: NDArray[Any], k: int) -> Neighbours:
        """The rows nearest to new vectors, (M, d), of unit norm or not.

        Raises:
            UsageError: k or the number of dimensions cannot work.
        """
        check_features(vectors)
        if vectors.shape[1] != self.features.shape[1]:
            raise UsageError(
                f"Vectors of {vectors.shape[1]} dimensions were given; the index holds {self.features.shape[1]}. "
                "Compute them with the model of the same run."
            )
        check_k(k, len(self), "rows")
        return self._search(unit(vectors), k)

    def query_rows(self, rows: Rows, k: int) -> Neighbours:
        """The rows nearest to rows, themselves left out.

        Raises:
            UsageError: k or a row number cannot work.
        """
        rows = self._checked(rows)
        check_k(k, len(self) - 1, "rows other than the row itself")
        return without_self(self._search(unit(self.features[rows]), k + 1), rows)

    def query_mean(self, rows: Rows, k: int) -> Neighbours:
        """The rows nearest to the mean of several, all of those left out; always exact, (1, k).

        Raises:
            UsageError: no rows, or k or a row number cannot work.
        """
        rows = np.unique(self._checked(rows))
        check_k(k, len(self) - len(rows), "rows besides those given")
        mean = np.zeros((1, self.features.shape[1]))
        for start in range(0, len(rows), CHUNK_ROWS):
            mean += unit(self.features[rows[start : start + CHUNK_ROWS]]).sum(axis=0, dtype=np.float64)
        return exact_search(self.features, unit(mean), k, left_out=rows)

    def graph(self, k: int, *, report: ProgressCallback = no_progress) -> Neighbours:
        """The k nearest other rows of every row.

        Raises:
            UsageError: k cannot work.
        """
        check_k(k, len(self) - 1, "rows other than the row itself")
        if self.approximate is None:
            return _exact_graph(self.features, k, report)
        return approximate_graph(self.approximate, self.features, k, report)

    def _search(self, vectors: Vectors, k: int) -> Neighbours:
        if self.approximate is None:
            return exact_search(self.features, vectors, k)
        return completed_search(self.approximate, self.features, vectors, k)

    def _checked(self, rows: Rows) -> Rows:
        rows = np.asarray(rows)
        if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
            raise UsageError(f"Row numbers {rows!r} were given; a list of at least one whole number is needed.")
        if rows.min() < 0 or rows.max() >= len(self):
            raise UsageError(f"Row numbers from {rows.min()} to {rows.max()} were given; there are {len(self)} rows.")
        return rows.astype(np.int64)


def _exact_graph(features: NDArray[Any], k: int, report: ProgressCallback) -> Neighbours:
    import faiss

    count = len(features)
    index = faiss.IndexFlatIP(features.shape[1])
    for _, chunk in unit_chunks(features):
        index.add(chunk)
    graph = Neighbours(np.empty((count, k), dtype=np.int64), np.empty((count, k), dtype=np.float32))
    stage = Stage("Finding neighbours", count, report)
    for start, chunk in unit_chunks(features, _QUERIES_AT_ONCE):
        rows = np.arange(start, start + len(chunk))
        found = without_self(completed_search(index, features, chunk, k + 1), rows)
        graph.positions[rows], graph.similarity[rows] = found
        stage.advance(len(chunk))
    stage.finish()
    return graph
