"""Approximate index: FAISS IVF cells of a few hundred rows, of which only the nearest are searched (probed).

The number of probed cells is measured: the smallest number that reaches the target recall on a sample of rows. Centres
are found in two levels, so that the time for training and assignment is nearly linear in the number of rows: a row is
compared with the groups of cells, and then only with the cells of the few nearest groups.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from crlc.analysis.neighbours.exact import find_top_k, sample_true_neighbours
from crlc.analysis.neighbours.faiss_library import load_faiss
from crlc.analysis.normalization import iterate_normalized_chunks, normalize_rows
from crlc.arrays import Features, FloatArray, IntArray
from crlc.progress import ProgressCallback, ProgressStage

_TARGET_SAMPLE_RECALL = 0.97
"""Target on a sample, for a recall of at least 0.95 on all rows. The standard deviation is 0.13 for single rows and
0.006 for the mean of the sample."""

_ROWS_PER_CELL = 256
_LARGE_CELL_ROWS = 2048
_TRAINING_ROWS_PER_CELL = 16
"""With 40 rows, the cells were not better."""

_KMEANS_ITERATIONS = 3
"""With 5 iterations, the cells were not better."""

_PROBED_GROUPS = 3


def build_ivf_index(features: Features, report: ProgressCallback) -> Any:
    """Find cells on a sample of the rows, then assign every row to its cell; the result is deterministic.

    Args:
        features: (N, d), normalised or not.
        report: receives the progress.

    Returns:
        A FAISS `IndexIVFFlat`.
    """
    faiss = load_faiss()

    untyped: Any = faiss
    count, dimensions = features.shape
    cells = max(1, count // _ROWS_PER_CELL)
    sample = np.random.default_rng(0).permutation(count)[: cells * _TRAINING_ROWS_PER_CELL]
    tree = CentreTree.fit(normalize_rows(features[np.sort(sample)]), cells)
    centres = faiss.IndexFlatIP(dimensions)
    centres.add(tree.centres)
    index = faiss.IndexIVFFlat(centres, dimensions, len(tree.centres), faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    stage = ProgressStage("Building the index", count, report)
    for _, chunk in iterate_normalized_chunks(features):
        # FAISS itself would compare each row with every centre.
        assigned = tree.assign_cells(chunk)
        index.add_core(len(chunk), untyped.swig_ptr(chunk), None, untyped.swig_ptr(assigned))
        stage.advance(len(chunk))
    stage.finish()
    return index


class CentreTree(NamedTuple):
    """Centres of the cells, in groups: a two-level k-means."""

    groups: FloatArray
    """Centres of the groups, (G, d)."""

    centres: FloatArray
    """Centres of the cells, group by group, (C, d)."""

    starts: IntArray
    """Index of the first cell of each group, followed by the number of cells, (G + 1,)."""

    @classmethod
    def fit(cls, sample: FloatArray, cells: int) -> CentreTree:
        """Find about `cells` centres of a sample of unit rows, deterministically."""
        groups = _fit_centres(sample, max(1, round(cells**0.5)))
        group_of = (sample @ groups.T).argmax(axis=1)
        by_group = [sample[group_of == group] for group in range(len(groups))]
        centres = [_fit_centres(rows, max(1, round(cells * len(rows) / len(sample)))) for rows in by_group if len(rows)]
        used = [group for group, rows in enumerate(by_group) if len(rows)]
        starts = np.cumsum([0, *map(len, centres)])
        return cls(groups[used], np.concatenate(centres), starts)

    def assign_cells(self, rows: FloatArray) -> IntArray:
        """Return the nearest cell of each unit row, among the cells of the nearest groups, (n,)."""
        probed = min(_PROBED_GROUPS, len(self.groups))
        near = np.argpartition(-(rows @ self.groups.T), probed - 1, axis=1)[:, :probed]
        best = np.full(len(rows), -np.inf, np.float32)
        cells = np.zeros(len(rows), np.int64)
        for group in range(len(self.groups)):
            members = np.flatnonzero((near == group).any(axis=1))
            first, end = self.starts[group : group + 2]
            similarity = rows[members] @ self.centres[first:end].T
            nearest = similarity.argmax(axis=1)
            reached = similarity[np.arange(len(members)), nearest]
            better = reached > best[members]
            best[members[better]], cells[members[better]] = reached[better], first + nearest[better]
        return cells


class IvfCells:
    """Content of the cells of an IVF index, ordered so that the rows of a cell are contiguous."""

    def __init__(self, index: Any) -> None:
        """Copy the row indices out of the index; vectors are copied when they are first used."""
        faiss = load_faiss()

        untyped: Any = faiss
        self._index = index
        lists = index.invlists
        self.centres: FloatArray = index.quantizer.reconstruct_n(0, index.nlist)
        self.starts: IntArray = np.cumsum([0, *(lists.list_size(cell) for cell in range(index.nlist))])
        self.rows: IntArray = np.empty(index.ntotal, dtype=np.int64)
        for cell in np.flatnonzero(np.diff(self.starts)).tolist():
            part = self.slice_of(cell)
            self.rows[part] = untyped.rev_swig_ptr(lists.get_ids(cell), part.stop - part.start)

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.centres)

    def slice_of(self, cell: int) -> slice:
        """Return the slice of `rows` and `vectors` with the rows of a cell."""
        return slice(int(self.starts[cell]), int(self.starts[cell + 1]))

    @cached_property
    def vectors(self) -> FloatArray:
        """Unit vectors of all rows, in the order of `rows`, (N, d)."""
        faiss = load_faiss()

        untyped: Any = faiss
        index = self._index
        vectors = np.empty((index.ntotal, index.d), dtype=np.float32)
        for cell in np.flatnonzero(np.diff(self.starts)).tolist():
            part = self.slice_of(cell)
            size = part.stop - part.start
            codes = untyped.rev_swig_ptr(index.invlists.get_codes(cell), size * index.code_size)
            vectors[part] = codes.view(np.float32).reshape(size, index.d)
        return vectors

    @cached_property
    def cell_of(self) -> IntArray:
        """The cell of each row, (N,)."""
        cells = np.empty(len(self.rows), np.int64)
        cells[self.rows] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return cells

    def limit_copies(self, copies: int) -> dict[int, tuple[IntArray, FloatArray]]:
        """Return rows and vectors of the large cells by cell, limited to `copies` rows of each distinct vector.

        All copies of an image are in one cell; without the limit, each would be compared with all others.
        """
        limited = {}
        for cell in np.flatnonzero(np.diff(self.starts) > _LARGE_CELL_ROWS).tolist():
            vectors = self.vectors[self.slice_of(cell)]
            _, group = np.unique(vectors.view(f"V{vectors.itemsize * vectors.shape[1]}")[:, 0], return_inverse=True)
            order = np.argsort(group, kind="stable")
            firsts = np.searchsorted(group[order], group[order], side="left")
            kept = np.sort(order[np.arange(len(order)) - firsts < copies])
            limited[cell] = self.rows[self.slice_of(cell)][kept], vectors[kept]
        return limited

    def count_probes_for_queries(self, features: Features, k: int) -> tuple[int, float]:
        """Return the number of cells to probe for the k neighbours of a query, and the resulting recall on a sample."""
        truth = sample_true_neighbours(features, k)
        return self._count_probes(truth.vectors, truth.neighbours.positions)

    def count_probes_for_graph(self, features: Features, k: int) -> int:
        """Return the number of cells to probe around the cell of a row for its k neighbours."""
        truth = sample_true_neighbours(features, k)
        return self._count_probes(self.centres[self.cell_of[truth.rows]], truth.neighbours.positions)[0]

    def _count_probes(self, queries: FloatArray, neighbours: IntArray) -> tuple[int, float]:
        """Return the number of probes and the recall, from the distance ranks of the true neighbours' cells."""
        order = np.argsort(-(queries @ self.centres.T), axis=1, kind="stable")
        rank_of = np.argsort(order, axis=1, kind="stable")
        ranks = np.sort(np.take_along_axis(rank_of, self.cell_of[neighbours], axis=1), axis=None)
        probes = int(ranks[int(np.ceil(_TARGET_SAMPLE_RECALL * len(ranks))) - 1]) + 1
        return probes, float(np.mean(ranks < probes))

    def find_nearest_cells(self, number: int) -> IntArray:
        """Return the cells nearest to the centre of each cell, itself included, (C, number)."""
        return find_top_k(self.centres, self.centres, number).positions


def _fit_centres(rows: FloatArray, count: int) -> FloatArray:
    """Return at most `count` centres by spherical k-means, (C, d)."""
    faiss = load_faiss()

    untyped: Any = faiss
    means = untyped.Kmeans(
        rows.shape[1],
        min(count, len(rows)),
        niter=_KMEANS_ITERATIONS,
        spherical=True,
        seed=0,
        min_points_per_centroid=1,  # suppresses the warning about few rows
        max_points_per_centroid=len(rows),  # no subsampling
    )
    means.train(rows)
    centres: FloatArray = means.centroids
    return centres
