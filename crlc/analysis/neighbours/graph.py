"""Neighbour graph: the k nearest rows of every row, exact for few rows and approximate for many.

The approximate graph compares the rows of each IVF cell with those of the cells around it: one matrix product per
cell, which is several times faster than the row-by-row search of FAISS. Both graphs are deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crlc.analysis.neighbours.exact import Neighbours, check_neighbour_count, drop_self, find_top_k, search_index
from crlc.analysis.neighbours.faiss_library import load_faiss
from crlc.analysis.neighbours.ivf import IvfCells, build_ivf_index
from crlc.analysis.normalization import check_features, iterate_normalized_chunks
from crlc.arrays import Features, FloatArray, IntArray
from crlc.progress import ProgressCallback, ProgressStage, no_progress

EXACT_GRAPH_LIMIT = 25_000
"""Maximum number of rows with an exact graph by default: the time is quadratic (8 s for this number on one core)."""

_QUERY_BATCH_ROWS = 4096


def build_neighbour_graph(
    features: Features, k: int, *, exact: bool | None = None, report: ProgressCallback = no_progress
) -> Neighbours:
    """Return the k nearest other rows of every row by cosine similarity.

    Args:
        features: (N, d), normalised or not.
        k: number of neighbours, from 1 to N - 1.
        exact: whether the graph is exact; by default up to `EXACT_GRAPH_LIMIT` rows.
        report: receives the progress.

    Raises:
        UsageError: k or the shape of the features is not allowed.
    """
    check_features(features)
    check_neighbour_count(k, len(features) - 1, "rows other than the row itself")
    if len(features) <= EXACT_GRAPH_LIMIT if exact is None else exact:
        return _build_exact_graph(features, k, report)
    return build_approximate_graph(build_ivf_index(features, report), features, k, report)


def build_approximate_graph(
    index: Any, features: Features, k: int, report: ProgressCallback = no_progress
) -> Neighbours:
    """Return the k nearest other rows of every row, approximately, with the target recall of the IVF index.

    Args:
        index: FAISS index of the features, from `build_ivf_index`.
        features: (N, d).
        k: number of neighbours, from 1 to N - 1.
        report: receives the progress.
    """
    cells = IvfCells(index)
    candidates = _CandidateRows(cells, cells.count_probes_for_graph(features, k), k + 1)
    count = len(features)
    graph = Neighbours(np.empty((count, k), dtype=np.int64), np.empty((count, k), dtype=np.float32))
    stage = ProgressStage("Finding neighbours", count, report)
    for cell in np.flatnonzero(np.diff(cells.starts)).tolist():
        part = cells.slice_of(cell)
        rows = cells.rows[part]
        others, vectors = candidates.collect(cell)
        found = find_top_k(cells.vectors[part], vectors, k + 1)
        graph.positions[rows], graph.similarity[rows] = drop_self(
            Neighbours(others[found.positions], found.similarity), rows
        )
        stage.advance(len(rows))
    stage.finish()
    return graph


def _build_exact_graph(features: Features, k: int, report: ProgressCallback) -> Neighbours:
    faiss = load_faiss()

    count = len(features)
    index = faiss.IndexFlatIP(features.shape[1])
    for _, chunk in iterate_normalized_chunks(features):
        index.add(chunk)
    graph = Neighbours(np.empty((count, k), dtype=np.int64), np.empty((count, k), dtype=np.float32))
    stage = ProgressStage("Finding neighbours", count, report)
    for start, chunk in iterate_normalized_chunks(features, _QUERY_BATCH_ROWS):
        rows = np.arange(start, start + len(chunk))
        found = drop_self(search_index(index, features, chunk, k + 1), rows)
        graph.positions[rows], graph.similarity[rows] = found
        stage.advance(len(chunk))
    stage.finish()
    return graph


class _CandidateRows:
    """The rows that the rows of a cell are compared with: those of the nearest cells."""

    def __init__(self, cells: IvfCells, probes: int, min_rows: int) -> None:
        """Use the `probes` nearest cells of each cell, or more if these have fewer than `min_rows` rows."""
        self._cells, self._min_rows = cells, min_rows
        self._limited = cells.limit_copies(min_rows)
        self._near = cells.find_nearest_cells(probes)
        self._sizes = np.diff(cells.starts)
        for cell, (rows, _) in self._limited.items():
            self._sizes[cell] = len(rows)

    def collect(self, cell: int) -> tuple[IntArray, FloatArray]:
        """Return indices and vectors of the candidate rows of a cell."""
        near = self._near[cell]
        if self._sizes[near].sum() < self._min_rows:
            near = self._widen(cell)
        contents = [self._read_cell(other) for other in near.tolist()]
        return np.concatenate([rows for rows, _ in contents]), np.concatenate([vectors for _, vectors in contents])

    def _widen(self, cell: int) -> IntArray:
        order = np.argsort(-(self._cells.centres @ self._cells.centres[cell]), kind="stable")
        return order[: 1 + int(np.searchsorted(np.cumsum(self._sizes[order]), self._min_rows))]

    def _read_cell(self, cell: int) -> tuple[IntArray, FloatArray]:
        if cell in self._limited:
            return self._limited[cell]
        part = self._cells.slice_of(cell)
        return self._cells.rows[part], self._cells.vectors[part]
