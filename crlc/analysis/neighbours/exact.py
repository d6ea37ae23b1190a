"""Exact search for the nearest rows by cosine similarity, and the recall of an approximate search."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crlc.analysis.neighbours.faiss_library import load_faiss
from crlc.analysis.normalization import iterate_normalized_chunks, normalize_rows
from crlc.arrays import Features, FloatArray, IntArray
from crlc.errors import UsageError

_RECALL_SAMPLE_ROWS = 512
_TIE_TOLERANCE = 1e-6
_MIN_TORCH_QUERIES = 20
"""From this number of queries on, FAISS multiplies matrices, which torch does 4 times as fast (60 instead of 14 GFLOPS
per core)."""

_MAX_PRODUCTS = 1 << 23
"""Maximum number of similarities in memory at a time."""


class Neighbours(NamedTuple):
    """The nearest rows of each row or query, nearest first."""

    positions: IntArray
    """(N, k) row indices; a row is never its own neighbour."""

    similarity: FloatArray
    """(N, k) cosine similarity."""


class NeighbourSample(NamedTuple):
    """A sample of rows with their true neighbours, to measure recall."""

    rows: IntArray
    vectors: FloatArray
    neighbours: Neighbours


def check_neighbour_count(k: int, most: int, what: str) -> None:
    """Check a number of neighbours.

    Args:
        k: the number to check.
        most: number of rows that can be neighbours, the largest allowed k.
        what: description of these rows in the error.

    Raises:
        UsageError: k is not from 1 to `most`.
    """
    if not 1 <= k <= most:
        raise UsageError(f"k={k} neighbours are not allowed: k must be from 1 to {most} (there are {most} {what}).")


def search_exact(features: Features, vectors: FloatArray, k: int, excluded: IntArray | None = None) -> Neighbours:
    """Return the k rows nearest to each vector, by comparison with every row.

    Args:
        features: (N, d); read one chunk at a time.
        vectors: unit vectors to search for, (Q, d).
        k: number of neighbours.
        excluded: ascending indices of rows that must not be found.
    """
    faiss = load_faiss()

    best = Neighbours(np.empty((len(vectors), 0), np.int64), np.empty((len(vectors), 0), np.float32))
    for start, chunk in iterate_normalized_chunks(features):
        rows = np.arange(start, start + len(chunk))
        if excluded is not None:
            rows = np.setdiff1d(rows, excluded, assume_unique=True)
        if not len(rows):
            continue
        candidates = chunk if len(rows) == len(chunk) else chunk[rows - start]
        if len(vectors) < _MIN_TORCH_QUERIES:
            similarity, hits = faiss.knn(vectors, candidates, min(k, len(rows)), metric=faiss.METRIC_INNER_PRODUCT)
        else:
            hits, similarity = find_top_k(vectors, candidates, min(k, len(rows)))
        similarity = np.concatenate([best.similarity, similarity], axis=1)
        positions = np.concatenate([best.positions, rows[hits]], axis=1)
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        best = Neighbours(np.take_along_axis(positions, order, axis=1), np.take_along_axis(similarity, order, axis=1))
    return best


def find_top_k(vectors: FloatArray, candidates: FloatArray, k: int) -> Neighbours:
    """Return the k candidates with the largest dot products with each vector.

    Args:
        vectors: unit vectors to search for, (Q, d).
        candidates: unit vectors to search in, (M, d).
        k: number of neighbours, at most M.

    Returns:
        Neighbours (Q, k); their positions are indices of `candidates`.
    """
    import torch

    found = Neighbours(np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k), np.float32))
    others = torch.from_numpy(candidates).T
    batch = max(1, _MAX_PRODUCTS // len(candidates))
    for start in range(0, len(vectors), batch):
        part = slice(start, start + batch)
        best = (torch.from_numpy(vectors[part]) @ others).topk(k, dim=1)
        found.positions[part], found.similarity[part] = best.indices.numpy(), best.values.numpy()
    return found


def drop_self(found: Neighbours, rows: IntArray) -> Neighbours:
    """Drop each row from its own neighbours; where copies of the row displaced it, drop the last neighbour.

    Args:
        found: k + 1 neighbours of each row.
        rows: index of each row.

    Returns:
        k neighbours of each row.
    """
    is_self = found.positions == rows[:, None]
    order = np.argsort(is_self, axis=1, kind="stable")[:, :-1]
    return Neighbours(
        np.take_along_axis(found.positions, order, axis=1), np.take_along_axis(found.similarity, order, axis=1)
    )


def search_index(index: Any, features: Features, vectors: FloatArray, k: int) -> Neighbours:
    """Search a FAISS index; the few queries with fewer than k results are repeated with an exact search.

    Args:
        index: FAISS index of the normalised features.
        features: (N, d), for the exact search.
        vectors: unit vectors to search for, (Q, d).
        k: number of neighbours.
    """
    similarity, positions = index.search(vectors, k)
    incomplete = np.flatnonzero((positions < 0).any(axis=1))
    if len(incomplete):
        positions[incomplete], similarity[incomplete] = search_exact(features, vectors[incomplete], k)
    return Neighbours(positions, similarity)


def sample_true_neighbours(features: Features, k: int) -> NeighbourSample:
    """Return evenly spaced rows with their k true neighbours."""
    rows = np.unique(np.linspace(0, len(features) - 1, _RECALL_SAMPLE_ROWS).astype(np.int64))
    vectors = normalize_rows(features[rows])
    return NeighbourSample(rows, vectors, drop_self(search_exact(features, vectors, k + 1), rows))


def compute_recall(found: Neighbours, truth: Neighbours) -> float:
    """Return the fraction of found neighbours that are true ones; ties in similarity count as true."""
    return float(np.mean(found.similarity >= truth.similarity[:, -1:] - _TIE_TOLERANCE))
