"""Exact search for the nearest rows, and the measure of what an approximate search finds of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.unit_rows import Rows, Vectors, unit, unit_chunks

_RECALL_SAMPLE = 512
_TIE = 1e-6
_MANY_QUERIES = 20
"""From here FAISS multiplies matrices as well: torch is 4 times as fast at it (60 to 14 GFLOPS on one core)."""

_MOST_PRODUCTS = 1 << 23


class Neighbours(NamedTuple):
    """The nearest rows of each row or query, nearest first."""

    positions: Rows
    """(N, k) row numbers; a row is never its own neighbour."""

    similarity: Vectors
    """(N, k) cosine of the angle between them."""


class Truth(NamedTuple):
    """Some rows and their true neighbours, to measure recall by."""

    rows: Rows
    vectors: Vectors
    neighbours: Neighbours


def exact_search(features: NDArray[Any], vectors: Vectors, k: int, left_out: Rows | None = None) -> Neighbours:
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
        if len(vectors) < _MANY_QUERIES:
            similarity, hits = faiss.knn(vectors, candidates, min(k, len(rows)), metric=faiss.METRIC_INNER_PRODUCT)
        else:
            hits, similarity = most_alike(vectors, candidates, min(k, len(rows)))
        similarity = np.concatenate([best.similarity, similarity], axis=1)
        positions = np.concatenate([best.positions, rows[hits]], axis=1)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        best = Neighbours(np.take_along_axis(positions, order, axis=1), np.take_along_axis(similarity, order, axis=1))
    return best


def most_alike(vectors: Vectors, candidates: Vectors, k: int) -> Neighbours:
    """The k candidates with the largest products with each vector, by numbers of candidates."""
    import torch

    found = Neighbours(np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k), np.float32))
    others = torch.from_numpy(candidates).T
    at_once = max(1, _MOST_PRODUCTS // len(candidates))
    for start in range(0, len(vectors), at_once):
        part = slice(start, start + at_once)
        best = (torch.from_numpy(vectors[part]) @ others).topk(k, dim=1)
        found.positions[part], found.similarity[part] = best.indices.numpy(), best.values.numpy()
    return found


def without_self(found: Neighbours, rows: Rows) -> Neighbours:
    """Drop each row from its own neighbours; where copies of it took its place, drop the last of them."""
    mine = found.positions == rows[:, None]
    order = np.argsort(mine, axis=1, kind="stable")[:, :-1]
    return Neighbours(
        np.take_along_axis(found.positions, order, axis=1), np.take_along_axis(found.similarity, order, axis=1)
    )


def completed_search(index: Any, features: NDArray[Any], vectors: Vectors, k: int) -> Neighbours:
    """Search a FAISS index; the few queries for which it found fewer than k are looked up exactly."""
    similarity, positions = index.search(vectors, k)
    short = np.flatnonzero((positions < 0).any(axis=1))
    if len(short):
        positions[short], similarity[short] = exact_search(features, vectors[short], k)
    return Neighbours(positions, similarity)


def sample_truth(features: NDArray[Any], k: int) -> Truth:
    """The true neighbours of rows taken at equal steps."""
    rows = np.unique(np.linspace(0, len(features) - 1, _RECALL_SAMPLE).astype(np.int64))
    vectors = unit(features[rows])
    return Truth(rows, vectors, without_self(exact_search(features, vectors, k + 1), rows))


def recall_of(found: Neighbours, truth: Neighbours) -> float:
    """The share of neighbours that are among the true ones; any of several equally near ones will do."""
    return float(np.mean(found.similarity >= truth.similarity[:, -1:] - _TIE))
