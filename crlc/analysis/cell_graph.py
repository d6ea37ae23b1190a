"""The approximate neighbour graph: every row is compared with the rows of the cells nearest to it.

FAISS would search row by row. Here all rows that want a cell are compared with it by one matrix product, which is
several times faster. The graph comes out the same on every call.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cells import cells_needed, in_cell_order
from crlc.analysis.nearest import Neighbours, exact_search, without_self
from crlc.analysis.unit_rows import Rows, Vectors
from crlc.progress import ProgressCallback, Stage

_LARGE_CELL = 2048
_FOUND_BYTES = 64_000_000
_MOST_ROWS_AT_ONCE = 16_384


def approximate_graph(index: Any, features: NDArray[Any], k: int, report: ProgressCallback) -> Neighbours:
    """The k nearest other rows of every row, with the recall that is wanted on a sample."""
    number = cells_needed(index, features, k)[0]
    cells = _Cells(index, k + 1)
    count = len(features)
    graph = Neighbours(np.empty((count, k), dtype=np.int64), np.empty((count, k), dtype=np.float32))
    at_once = min(_MOST_ROWS_AT_ONCE, max(1, _FOUND_BYTES // (number * (k + 1) * 12)))
    stage = Stage("Finding neighbours", count, report)
    for start in range(0, count, at_once):
        rows = cells.rows[start : start + at_once]
        vectors = cells.vectors[start : start + at_once]
        _, wanted = index.quantizer.search(vectors, number)
        found = cells.nearest(vectors, wanted)
        short = np.flatnonzero((found.positions < 0).any(axis=1))
        if len(short):  # too few rows in the cells nearest to it
            found.positions[short], found.similarity[short] = exact_search(features, vectors[short], k + 1)
        graph.positions[rows], graph.similarity[rows] = without_self(found, rows)
        stage.advance(len(rows))
    stage.finish()
    return graph


class _Cells:
    """All rows in the order of their cells, so that a cell's vectors lie together."""

    def __init__(self, index: Any, k: int) -> None:
        self.rows, self.starts, self.vectors = in_cell_order(index)
        self._k = k

    @cached_property
    def _thinned(self) -> dict[int, tuple[Rows, Vectors]]:
        """Large cells with at most k copies of each vector.

        Copies of one image all fall into one cell, which would have to be compared with all of itself.
        """
        thinned = {}
        for cell in np.flatnonzero(np.diff(self.starts) > _LARGE_CELL):
            place = slice(self.starts[cell], self.starts[cell + 1])
            vectors = self.vectors[place]
            _, group = np.unique(vectors.view(f"V{vectors.itemsize * vectors.shape[1]}")[:, 0], return_inverse=True)
            order = np.argsort(group, kind="stable")
            firsts = np.searchsorted(group[order], group[order], side="left")
            kept = np.sort(order[np.arange(len(order)) - firsts < self._k])
            thinned[int(cell)] = self.rows[place][kept], vectors[kept]
        return thinned

    def nearest(self, vectors: Vectors, wanted: Rows) -> Neighbours:
        """The nearest rows among those of the wanted cells, (M, cells); -1 where there are fewer than k."""
        import faiss

        count, number = wanted.shape
        k = self._k
        similarity = np.full((count * number, k), -np.inf, dtype=np.float32)
        positions = np.full((count * number, k), -1, dtype=np.int64)
        requests = np.argsort(wanted, axis=None, kind="stable")
        asked, firsts = np.unique(wanted.ravel()[requests], return_index=True)
        for cell, mine in zip(asked.tolist(), np.split(requests, firsts[1:]), strict=True):
            rows, candidates = self._content(cell)
            most = min(k, len(rows))
            if cell < 0 or not most:
                continue
            close, hits = faiss.knn(vectors[mine // number], candidates, most, metric=faiss.METRIC_INNER_PRODUCT)
            similarity[mine, :most], positions[mine, :most] = close, rows[hits]
        similarity, positions = similarity.reshape(count, -1), positions.reshape(count, -1)
        best = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(similarity, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        return Neighbours(np.take_along_axis(positions, best, axis=1), np.take_along_axis(similarity, best, axis=1))

    def _content(self, cell: int) -> tuple[Rows, Vectors]:
        if cell in self._thinned:
            return self._thinned[cell]
        place = slice(self.starts[cell], self.starts[cell + 1])
        return self.rows[place], self.vectors[place]
