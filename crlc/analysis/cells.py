"""The approximate index: rows in cells of a few hundred by k-means (FAISS IVF); only the nearest cells are searched.

How many cells are searched is measured: as few as give the recall that is wanted on a sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.nearest import completed_search, recall_of, sample_truth, without_self
from crlc.analysis.unit_rows import Rows, Vectors, unit, unit_chunks
from crlc.progress import ProgressCallback, Stage

WANTED_RECALL = 0.97
"""On a sample, so that it is at least 0.95 for all: rows differ by 0.13, the mean of the sample by 0.006."""

_ROWS_PER_CELL = 256
_TRAINING_ROWS_PER_CELL = 16
_TRAINING_ROUNDS = 3
"""Finding the cells grows with the square of their number; 40 rows and 5 rounds gave no better recall."""

_STEPS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 256, 512, 1024, 2048)


def build_cells(features: NDArray[Any], report: ProgressCallback) -> Any:
    """Find the cells on some of the rows, then put all into them; a FAISS index, the same on every call."""
    import faiss

    count, dimensions = features.shape
    cells = max(1, count // _ROWS_PER_CELL)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True
    index.cp.niter = _TRAINING_ROUNDS
    index.cp.min_points_per_centroid = 1  # no warning for less than it would like
    index.cp.max_points_per_centroid = _TRAINING_ROWS_PER_CELL
    sample = np.random.default_rng(0).permutation(count)[: cells * _TRAINING_ROWS_PER_CELL]
    index.train(unit(features[np.sort(sample)]))
    stage = Stage("Building the index", count, report)
    for _, chunk in unit_chunks(features):
        index.add(chunk)
        stage.advance(len(chunk))
    stage.finish()
    return index


def cells_needed(index: Any, features: NDArray[Any], k: int) -> tuple[int, float]:
    """How many cells must be searched for the k nearest, and the recall on a sample that this gives."""
    truth = sample_truth(features, k)
    before = index.nprobe
    for cells in [*(step for step in _STEPS if step < index.nlist), index.nlist]:  # all cells: exact
        index.nprobe = cells
        found = completed_search(index, features, truth.vectors, k + 1)
        recall = recall_of(without_self(found, truth.rows), truth.neighbours)
        if recall >= WANTED_RECALL:
            break
    index.nprobe = before
    return cells, recall


def in_cell_order(index: Any) -> tuple[Rows, Rows, Vectors]:
    """Row numbers and vectors, cell after cell, and where each cell starts (with the end of the last)."""
    import faiss

    untyped: Any = faiss
    lists = index.invlists
    starts = np.cumsum([0, *(lists.list_size(cell) for cell in range(index.nlist))])
    rows = np.empty(index.ntotal, dtype=np.int64)
    vectors = np.empty((index.ntotal, index.d), dtype=np.float32)
    for cell in range(index.nlist):
        place = slice(starts[cell], starts[cell + 1])
        size = int(starts[cell + 1] - starts[cell])
        if size:
            rows[place] = untyped.rev_swig_ptr(lists.get_ids(cell), size)
            codes = untyped.rev_swig_ptr(lists.get_codes(cell), size * index.code_size)
            vectors[place] = codes.view(np.float32).reshape(size, index.d)
    return rows, starts, vectors
