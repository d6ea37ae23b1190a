"""The approximate neighbour graph: the rows of a cell are compared with those of the cells around it.

FAISS would search row by row. Here it is one matrix product for each cell, which is several times faster and grows
with the rows only. The graph comes out the same on every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cells import Cells
from crlc.analysis.nearest import Neighbours, most_alike, without_self
from crlc.analysis.unit_rows import Rows, Vectors
from crlc.progress import ProgressCallback, Stage


def approximate_graph(index: Any, features: NDArray[Any], k: int, report: ProgressCallback) -> Neighbours:
    """The k nearest other rows of every row, with the recall that is wanted on a sample."""
    cells = Cells(index)
    surroundings = _Surroundings(cells, cells.needed_for_graph(features, k), k + 1)
    count = len(features)
    graph = Neighbours(np.empty((count, k), dtype=np.int64), np.empty((count, k), dtype=np.float32))
    stage = Stage("Finding neighbours", count, report)
    for cell in np.flatnonzero(np.diff(cells.starts)).tolist():
        place = cells.place(cell)
        rows = cells.rows[place]
        candidates, vectors = surroundings.of(cell)
        found = most_alike(cells.vectors[place], vectors, k + 1)
        graph.positions[rows], graph.similarity[rows] = without_self(
            Neighbours(candidates[found.positions], found.similarity), rows
        )
        stage.advance(len(rows))
    stage.finish()
    return graph


class _Surroundings:
    """The rows that those of a cell are compared with."""

    def __init__(self, cells: Cells, number: int, fewest_rows: int) -> None:
        """Look at so many cells; at more where those hold fewer rows than that."""
        self._cells, self._number, self._fewest = cells, number, fewest_rows
        self._thinned = cells.thinned(fewest_rows)
        self._near = cells.nearest_cells(number)
        self._sizes = np.diff(cells.starts)
        for cell, (rows, _) in self._thinned.items():
            self._sizes[cell] = len(rows)

    def of(self, cell: int) -> tuple[Rows, Vectors]:
        """Row numbers and vectors."""
        near = self._near[cell]
        if self._sizes[near].sum() < self._fewest:
            near = self._enough(cell)
        contents = [self._content(other) for other in near.tolist()]
        return np.concatenate([rows for rows, _ in contents]), np.concatenate([vectors for _, vectors in contents])

    def _enough(self, cell: int) -> Rows:
        order = np.argsort(-(self._cells.centres @ self._cells.centres[cell]), kind="stable")
        return order[: 1 + int(np.searchsorted(np.cumsum(self._sizes[order]), self._fewest))]

    def _content(self, cell: int) -> tuple[Rows, Vectors]:
        if cell in self._thinned:
            return self._thinned[cell]
        place = self._cells.place(cell)
        return self._cells.rows[place], self._cells.vectors[place]
