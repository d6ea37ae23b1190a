"""The approximate index: rows in cells of a few hundred (FAISS IVF); only the nearest cells are searched.

How many cells must be searched is measured: as few as hold the true neighbours of a sample, up to the recall wanted.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cell_tree import ROWS_FOR_A_CENTRE, CellTree
from crlc.analysis.nearest import most_alike, sample_truth
from crlc.analysis.unit_rows import Rows, Vectors, unit, unit_chunks
from crlc.progress import ProgressCallback, Stage

WANTED_RECALL = 0.97
"""On a sample, so that it is at least 0.95 for all: rows differ by 0.13, the mean of the sample by 0.006."""

_ROWS_PER_CELL = 256
_LARGE_CELL = 2048


def build_cells(features: NDArray[Any], report: ProgressCallback) -> Any:
    """Find the cells on some of the rows, then put all into them; a FAISS index, the same on every call."""
    import faiss

    untyped: Any = faiss
    count, dimensions = features.shape
    cells = max(1, count // _ROWS_PER_CELL)
    sample = np.random.default_rng(0).permutation(count)[: cells * ROWS_FOR_A_CENTRE]
    tree = CellTree.grow(unit(features[np.sort(sample)]), cells)
    centres = faiss.IndexFlatIP(dimensions)
    centres.add(tree.centres)
    index = faiss.IndexIVFFlat(centres, dimensions, len(tree.centres), faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    stage = Stage("Building the index", count, report)
    for _, chunk in unit_chunks(features):
        # FAISS would compare each row with every centre.
        chosen = tree.cells_of(chunk)
        index.add_core(len(chunk), untyped.swig_ptr(chunk), None, untyped.swig_ptr(chosen))
        stage.advance(len(chunk))
    stage.finish()
    return index


class Cells:
    """What lies in the cells of an index, so that a cell's vectors lie together."""

    def __init__(self, index: Any) -> None:
        """Copy out of the index which rows they hold; the vectors only when they are asked for."""
        import faiss

        untyped: Any = faiss
        self._index = index
        lists = index.invlists
        self.centres: Vectors = index.quantizer.reconstruct_n(0, index.nlist)
        self.starts: Rows = np.cumsum([0, *(lists.list_size(cell) for cell in range(index.nlist))])
        self.rows: Rows = np.empty(index.ntotal, dtype=np.int64)
        for cell in np.flatnonzero(np.diff(self.starts)).tolist():
            place = self.place(cell)
            self.rows[place] = untyped.rev_swig_ptr(lists.get_ids(cell), place.stop - place.start)

    def __len__(self) -> int:
        """How many cells there are."""
        return len(self.centres)

    def place(self, cell: int) -> slice:
        """Where the rows of a cell stand in `rows` and `vectors`."""
        return slice(int(self.starts[cell]), int(self.starts[cell + 1]))

    @cached_property
    def vectors(self) -> Vectors:
        """Of all rows, in the order of `rows`, (N, d)."""
        import faiss

        untyped: Any = faiss
        index = self._index
        vectors = np.empty((index.ntotal, index.d), dtype=np.float32)
        for cell in np.flatnonzero(np.diff(self.starts)).tolist():
            place = self.place(cell)
            size = place.stop - place.start
            codes = untyped.rev_swig_ptr(index.invlists.get_codes(cell), size * index.code_size)
            vectors[place] = codes.view(np.float32).reshape(size, index.d)
        return vectors

    @cached_property
    def cell_of(self) -> Rows:
        """The cell of each row, (N,)."""
        cells = np.empty(len(self.rows), np.int64)
        cells[self.rows] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return cells

    def thinned(self, copies: int) -> dict[int, tuple[Rows, Vectors]]:
        """Rows and vectors of large cells, with at most so many copies of each vector.

        Copies of one image all fall into one cell, which would have to be compared with all of itself.
        """
        thinned = {}
        for cell in np.flatnonzero(np.diff(self.starts) > _LARGE_CELL).tolist():
            vectors = self.vectors[self.place(cell)]
            _, group = np.unique(vectors.view(f"V{vectors.itemsize * vectors.shape[1]}")[:, 0], return_inverse=True)
            order = np.argsort(group, kind="stable")
            firsts = np.searchsorted(group[order], group[order], side="left")
            kept = np.sort(order[np.arange(len(order)) - firsts < copies])
            thinned[cell] = self.rows[self.place(cell)][kept], vectors[kept]
        return thinned

    def needed_for_queries(self, features: NDArray[Any], k: int) -> tuple[int, float]:
        """How many of the cells nearest to a row must be searched for its k nearest, and the recall that this gives."""
        truth = sample_truth(features, k)
        return self._needed(truth.vectors, truth.neighbours.positions)

    def needed_for_graph(self, features: NDArray[Any], k: int) -> int:
        """How many of the cells nearest to the centre of a row's own cell must be."""
        truth = sample_truth(features, k)
        return self._needed(self.centres[self.cell_of[truth.rows]], truth.neighbours.positions)[0]

    def _needed(self, asking: Vectors, neighbours: Rows) -> tuple[int, float]:
        """From the places that the cells of the true neighbours have in the order of the cells, nearest first."""
        order = np.argsort(-(asking @ self.centres.T), axis=1, kind="stable")
        place_of = np.argsort(order, axis=1, kind="stable")
        places = np.sort(np.take_along_axis(place_of, self.cell_of[neighbours], axis=1), axis=None)
        number = int(places[int(np.ceil(WANTED_RECALL * len(places))) - 1]) + 1
        return number, float(np.mean(places < number))

    def nearest_cells(self, number: int) -> Rows:
        """The cells nearest to the centre of each cell, itself among them, (C, number)."""
        return most_alike(self.centres, self.centres, number).positions
