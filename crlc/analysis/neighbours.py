"""Nearest images by cosine similarity, with FAISS: the graph of all images, and queries. No maps, no ids, no files.

Rows are known by their numbers. Exact where that is quick; above that by an approximate index whose recall is
measured on a sample when it is built, and which searches wider until the recall is good enough.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.unit_rows import CHUNK_ROWS, Rows, Vectors, check_features, unit, unit_chunks
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, Stage, no_progress

EXACT_GRAPH_LIMIT = 25_000
"""The graph of all images is exact up to here: its time grows with the square (8 s for that many on one core)."""

EXACT_INDEX_LIMIT = 300_000
"""Single queries are exact up to here: one reads every row once (0.1 s)."""

WANTED_RECALL = 0.97
"""Of the ten nearest, on a sample: some more than the 0.95 that is promised for all."""

_LINKS = 24
_BREADTH_OF_BUILDING = 80
_BREADTHS = (32, 64, 128, 256, 512, 1024)
_RECALL_AT = 10
_RECALL_SAMPLE = 256
_QUERIES_AT_ONCE = 4096
_TIE = 1e-6


class Neighbours(NamedTuple):
    """The nearest rows of each row or query, nearest first."""

    positions: Rows
    """(N, k) row numbers; a row is never its own neighbour."""

    similarity: Vectors
    """(N, k) cosine of the angle between them."""


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
        index = _linked_graph(features, report)
        recall = _widen_until_good(index, features)
        if recall < WANTED_RECALL:
            return cls(features, None, 1.0)  # slow is better than wrong
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
        return _without_self(self._search(unit(self.features[rows]), k + 1), rows)

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
        return _exact_search(self.features, unit(mean), k, left_out=rows)

    def graph(self, k: int, *, report: ProgressCallback = no_progress) -> Neighbours:
        """The k nearest other rows of every row.

        Raises:
            UsageError: k cannot work.
        """
        count = len(self)
        check_k(k, count - 1, "rows other than the row itself")
        index = _flat(self.features) if self.approximate is None else self.approximate
        positions = np.empty((count, k), dtype=np.int64)
        similarity = np.empty((count, k), dtype=np.float32)
        stage = Stage("Finding neighbours", count, report)
        for start, chunk in unit_chunks(self.features, _QUERIES_AT_ONCE):
            rows = np.arange(start, start + len(chunk))
            found = _without_self(_completed(index, self.features, chunk, k + 1), rows)
            positions[rows], similarity[rows] = found
            stage.advance(len(chunk))
        stage.finish()
        return Neighbours(positions, similarity)

    def _search(self, vectors: Vectors, k: int) -> Neighbours:
        if self.approximate is None:
            return _exact_search(self.features, vectors, k)
        return _completed(self.approximate, self.features, vectors, k)

    def _checked(self, rows: Rows) -> Rows:
        rows = np.asarray(rows)
        if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
            raise UsageError(f"Row numbers {rows!r} were given; a list of at least one whole number is needed.")
        if rows.min() < 0 or rows.max() >= len(self):
            raise UsageError(f"Row numbers from {rows.min()} to {rows.max()} were given; there are {len(self)} rows.")
        return rows.astype(np.int64)


def _without_self(found: Neighbours, rows: Rows) -> Neighbours:
    """Drop each row from its own neighbours; where copies of it took its place, drop the last of them."""
    mine = found.positions == rows[:, None]
    order = np.argsort(mine, axis=1, kind="stable")[:, :-1]
    return Neighbours(
        np.take_along_axis(found.positions, order, axis=1), np.take_along_axis(found.similarity, order, axis=1)
    )


def _exact_search(features: NDArray[Any], vectors: Vectors, k: int, left_out: Rows | None = None) -> Neighbours:
    """Look at every row, a chunk at a time, and keep the best; `left_out` are sorted rows that do not count."""
    import faiss

    best = Neighbours(np.empty((len(vectors), 0), np.int64), np.empty((len(vectors), 0), np.float32))
    for start, chunk in unit_chunks(features):
        rows = np.arange(start, start + len(chunk))
        if left_out is not None:
            rows = np.setdiff1d(rows, left_out, assume_unique=True)
        if not len(rows):
            continue
        candidates = chunk if len(rows) == len(chunk) else chunk[rows - start]
        similarity, hits = faiss.knn(vectors, candidates, min(k, len(rows)), metric=faiss.METRIC_INNER_PRODUCT)
        similarity = np.concatenate([best.similarity, similarity], axis=1)
        positions = np.concatenate([best.positions, rows[hits]], axis=1)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        best = Neighbours(np.take_along_axis(positions, order, axis=1), np.take_along_axis(similarity, order, axis=1))
    return best


def _completed(index: Any, features: NDArray[Any], vectors: Vectors, k: int) -> Neighbours:
    """Search an index; the few queries for which an approximate one found fewer than k are looked up exactly."""
    similarity, positions = index.search(vectors, k)
    short = np.flatnonzero((positions < 0).any(axis=1))
    if len(short):
        positions[short], similarity[short] = _exact_search(features, vectors[short], k)
    return Neighbours(positions, similarity)


def _flat(features: NDArray[Any]) -> Any:
    import faiss

    index = faiss.IndexFlatIP(features.shape[1])
    for _, chunk in unit_chunks(features):
        index.add(chunk)
    return index


def _linked_graph(features: NDArray[Any], report: ProgressCallback) -> Any:
    """Build the approximate index."""
    import faiss

    index = faiss.IndexHNSWFlat(features.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BREADTH_OF_BUILDING
    stage = Stage("Building the index", len(features), report)
    for _, chunk in unit_chunks(features):
        index.add(chunk)
        stage.advance(len(chunk))
    stage.finish()
    return index


def _widen_until_good(index: Any, features: NDArray[Any]) -> float:
    """Search wider until the recall on a sample is as wanted; returns the recall reached."""
    count = len(features)
    k = min(_RECALL_AT, count - 1)
    rows = np.unique(np.linspace(0, count - 1, _RECALL_SAMPLE).astype(np.int64))
    vectors = unit(features[rows])
    truth = _without_self(_exact_search(features, vectors, k + 1), rows)
    recall = 0.0
    for breadth in _BREADTHS:
        index.hnsw.efSearch = breadth
        recall = recall_of(_without_self(_completed(index, features, vectors, k + 1), rows), truth)
        if recall >= WANTED_RECALL:
            break
    return recall


def recall_of(found: Neighbours, truth: Neighbours) -> float:
    """The share of neighbours that are among the true ones; any of several equally near ones will do."""
    return float(np.mean(found.similarity >= truth.similarity[:, -1:] - _TIE))
