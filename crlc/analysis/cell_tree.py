"""Centres of cells in two levels, so that finding them and putting rows into them grows little faster than the rows.

A row is compared with the groups of cells, and then with the cells of the few nearest groups only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crlc.analysis.unit_rows import Rows, Vectors

ROWS_FOR_A_CENTRE = 16
"""40 rows gave no better cells."""

_ROUNDS = 3
"""5 gave no better cells."""

_GROUPS_LOOKED_AT = 3


class CellTree(NamedTuple):
    """Cells in groups."""

    groups: Vectors
    """Their centres, (G, d)."""

    centres: Vectors
    """Of the cells, group after group, (C, d)."""

    starts: Rows
    """Where each group's cells start, with the end of the last, (G + 1,)."""

    @classmethod
    def grow(cls, sample: Vectors, cells: int) -> CellTree:
        """About so many cells, from a sample of unit rows; the same on every call."""
        groups = _centres(sample, max(1, round(cells**0.5)))
        group_of = (sample @ groups.T).argmax(axis=1)
        in_groups = [sample[group_of == group] for group in range(len(groups))]
        found = [_centres(rows, max(1, round(cells * len(rows) / len(sample)))) for rows in in_groups if len(rows)]
        kept = [group for group, rows in enumerate(in_groups) if len(rows)]
        starts = np.cumsum([0, *map(len, found)])
        return cls(groups[kept], np.concatenate(found), starts)

    def cells_of(self, rows: Vectors) -> Rows:
        """The cell of each unit row: the nearest of those in the nearest groups, (n,)."""
        looked_at = min(_GROUPS_LOOKED_AT, len(self.groups))
        near = np.argpartition(-(rows @ self.groups.T), looked_at - 1, axis=1)[:, :looked_at]
        best = np.full(len(rows), -np.inf, np.float32)
        cells = np.zeros(len(rows), np.int64)
        for group in range(len(self.groups)):
            mine = np.flatnonzero((near == group).any(axis=1))
            first, end = self.starts[group : group + 2]
            similarity = rows[mine] @ self.centres[first:end].T
            chosen = similarity.argmax(axis=1)
            reached = similarity[np.arange(len(mine)), chosen]
            better = reached > best[mine]
            best[mine[better]], cells[mine[better]] = reached[better], first + chosen[better]
        return cells


def _centres(rows: Vectors, count: int) -> Vectors:
    """Spherical k-means, (at most count, d)."""
    import faiss

    untyped: Any = faiss
    means = untyped.Kmeans(
        rows.shape[1],
        min(count, len(rows)),
        niter=_ROUNDS,
        spherical=True,
        seed=0,
        min_points_per_centroid=1,  # no warning for less than it would like
        max_points_per_centroid=len(rows),  # all that it is given
    )
    means.train(rows)
    centres: Vectors = means.centroids
    return centres
