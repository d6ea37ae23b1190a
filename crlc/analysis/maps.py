"""Maps: PCA, UMAP and t-SNE of features to two dimensions, and where a new image goes. No files, no processes.

UMAP and t-SNE get the neighbour graph of FAISS instead of computing their own, and both start from the PCA map, so
that the large shape stays when one map takes the place of another. With the same features, seed and versions a map
comes out the same. They cannot be stopped from inside: `crlc.analysis.map_process` runs them in a process.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.nearest import Neighbours
from crlc.analysis.neighbours import neighbour_graph
from crlc.analysis.unit_rows import Vectors, check_features, unit_chunks
from crlc.errors import UsageError
from crlc.progress import ROUNDS, ProgressCallback, Stage, no_progress

UMAP_NEIGHBOURS = 15
PERPLEXITY = 30.0
_NEIGHBOURS_PER_PERPLEXITY = 3
_FEWEST_ROWS = 8
"""Below, UMAP and t-SNE mean nothing: the PCA map is given."""

_MANY_ROWS, _ROUNDS_OF_MANY = 10_000, 120
"""From so many rows UMAP itself does 200 rounds: 120 from a PCA map are as true to the neighbours (0.994 at 60,000)."""

_JITTER = 1e-4
_TSNE_ROUNDS = (250, 500)
_TSNE_REPORT_EVERY = 10
_TSNE_START = 1e-4
_COPY = 1e-6


def pca_map(features: NDArray[Any], *, report: ProgressCallback = no_progress) -> Vectors:
    """The two directions in which the unit features vary most, (N, 2); read twice, a chunk at a time.

    Raises:
        UsageError: the features are no table.
    """
    check_features(features)
    count, dimensions = features.shape
    total, products = np.zeros(dimensions), np.zeros((dimensions, dimensions))
    stage = Stage("PCA", 2 * count, report, "rows")
    for _, chunk in unit_chunks(features):
        total += chunk.sum(axis=0, dtype=np.float64)
        products += (chunk.T @ chunk).astype(np.float64)
        stage.advance(len(chunk))
    mean = total / count
    _, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
    axes = np.zeros((dimensions, 2))
    axes[:, : min(2, dimensions)] = vectors[:, ::-1][:, :2]
    # The sign of an eigenvector is a matter of chance: its largest part points up.
    largest = np.abs(axes).argmax(axis=0)
    axes *= np.where(axes[largest, [0, 1]] < 0, -1, 1)
    places = np.empty((count, 2), dtype=np.float32)
    for start, chunk in unit_chunks(features):
        places[start : start + len(chunk)] = (chunk - mean) @ axes
        stage.advance(len(chunk))
    stage.finish()
    return places


def neighbours_wanted(method: str, count: int, *, perplexity: float = PERPLEXITY) -> int:
    """How many neighbours of each of `count` rows a map needs; 0 when none."""
    if method == "pca" or count < _FEWEST_ROWS:
        return 0
    wanted = UMAP_NEIGHBOURS - 1 if method == "umap" else round(_NEIGHBOURS_PER_PERPLEXITY * perplexity)
    return min(wanted, count - 1)


def umap_map(
    features: NDArray[Any],
    graph: Neighbours | None = None,
    *,
    min_dist: float = 0.1,
    epochs: int | None = None,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> Vectors:
    """UMAP with cosine distances, (N, 2).

    With `report`, standard output is set aside while it runs, because UMAP talks there.

    Args:
        features: (N, d), of unit norm or not; may be a memory map.
        graph: at least `neighbours_wanted("umap", N)` neighbours; found here when not given.
        min_dist: how close points may come.
        epochs: rounds; by default 500 up to 10,000 images, 120 above.
        seed: of the chance in it.
        report: told how far it is.

    Raises:
        UsageError: the features are no table, or the graph is not of them.
    """
    start = pca_map(features)
    k = neighbours_wanted("umap", len(features))
    if not k:
        return start
    positions, similarity = _checked_graph(graph, features, k, report)
    if epochs is None and len(features) > _MANY_ROWS:
        epochs = _ROUNDS_OF_MANY
    rows = np.arange(len(features))[:, None]
    distances = np.concatenate([np.zeros_like(rows, np.float32), np.maximum(1 - similarity, 0)], axis=1)
    talks = report is not no_progress
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) if talks else contextlib.nullcontext():
        warnings.simplefilter("ignore")  # that it uses one thread for the sake of the seed, and cannot place new images
        from umap import UMAP

        model = UMAP(
            n_neighbors=k + 1,  # it counts the row itself
            min_dist=min_dist,
            n_epochs=epochs,
            init=_spread(start, seed),
            random_state=seed,
            precomputed_knn=(np.concatenate([rows, positions], axis=1), distances),
            verbose=talks,
            tqdm_kwds={"file": _Listener(report), "bar_format": "{n_fmt} {total_fmt}"},
        )
        # With neighbours and a start given, all it asks of the data is how many rows there are.
        places = model.fit(start).embedding_
    return np.ascontiguousarray(places, dtype=np.float32)


def tsne_map(
    features: NDArray[Any],
    graph: Neighbours | None = None,
    *,
    perplexity: float = PERPLEXITY,
    seed: int = 0,
    threads: int = 1,
    report: ProgressCallback = no_progress,
) -> Vectors:
    """t-SNE (openTSNE) on the distances of unit vectors, (N, 2).

    Args:
        features: (N, d), of unit norm or not; may be a memory map.
        graph: at least `neighbours_wanted("tsne", N)` neighbours; found here when not given.
        perplexity: how many neighbours count, about; less when there are few images.
        seed: of the chance in it.
        threads: more than one is faster for many images, but then it does not come out the same every time.
        report: told how far it is.

    Raises:
        UsageError: the features are no table, the graph is not of them, or the perplexity cannot work.
    """
    if not perplexity >= 1:
        raise UsageError(f"A perplexity of {perplexity} was given; it must be at least 1 (30 is usual).")
    start = pca_map(features)
    k = neighbours_wanted("tsne", len(features), perplexity=perplexity)
    if not k:
        return start
    positions, similarity = _checked_graph(graph, features, k, report)
    from openTSNE import TSNE, affinity, nearest_neighbors

    distances = np.sqrt(np.maximum(2 - 2 * similarity, 0))
    affinities = affinity.PerplexityBasedNN(
        perplexity=min(perplexity, k / _NEIGHBOURS_PER_PERPLEXITY),
        knn_index=nearest_neighbors.PrecomputedNeighbors(positions, distances),
        n_jobs=threads,
    )
    early, late = _TSNE_ROUNDS
    stage = Stage("t-SNE", early + late, report, ROUNDS)

    def advance(*_: object) -> None:
        stage.advance(_TSNE_REPORT_EVERY)

    model = TSNE(
        n_jobs=threads,
        early_exaggeration_iter=early,
        n_iter=late,
        random_state=seed,
        callbacks=advance,
        callbacks_every_iters=_TSNE_REPORT_EVERY,
    )
    spread = _spread(start, seed).astype(np.float64)
    places = model.fit(affinities=affinities, initialization=spread * (_TSNE_START / spread[:, 0].std()))
    stage.finish()
    return np.ascontiguousarray(places, dtype=np.float32)


def place_new(places: NDArray[np.float32], found: Neighbours) -> Vectors:
    """Where new images go on a map: the mean place of their neighbours, the nearer ones counting more, (M, 2).

    A copy of an image that is there goes to exactly its place.

    Args:
        places: the map, (N, 2).
        found: neighbours of the new images among the N, nearest first.
    """
    distances = np.maximum(1 - found.similarity.astype(np.float64), 0)
    beyond = distances - distances[:, :1]
    # As in UMAP: relative to the nearest, and in units of how far the others are beyond it.
    scale = beyond.mean(axis=1, keepdims=True)
    weights = np.exp(-beyond / np.where(scale > 0, scale, 1))
    copies = distances < _COPY
    weights = np.where(copies.any(axis=1, keepdims=True), copies, weights)
    weights /= weights.sum(axis=1, keepdims=True)
    weighted: Vectors = np.einsum("mk,mkc->mc", weights, places[found.positions]).astype(np.float32)
    return weighted


def _checked_graph(graph: Neighbours | None, features: NDArray[Any], k: int, report: ProgressCallback) -> Neighbours:
    """The first k neighbours of the graph given, or of one made here."""
    if graph is None:
        return neighbour_graph(features, k, report=report)
    shape = graph.positions.shape
    if shape[0] != len(features) or shape[1] < k or graph.similarity.shape != shape:
        raise UsageError(
            f"A neighbour graph of shape {shape} was given; this map of {len(features)} images needs "
            f"at least {k} neighbours of each."
        )
    return Neighbours(np.ascontiguousarray(graph.positions[:, :k]), np.ascontiguousarray(graph.similarity[:, :k]))


def _spread(start: Vectors, seed: int) -> Vectors:
    """The start with a little noise: images that are the same must be able to part, and a line to get a width."""
    extent = float(np.ptp(start, axis=0).max()) or 1.0
    noise = np.random.default_rng(seed).normal(scale=_JITTER * extent, size=start.shape)
    return (start + noise).astype(np.float32)


class _Listener(io.TextIOBase):
    """Where UMAP draws its bar of progress: makes reports of it."""

    def __init__(self, report: ProgressCallback) -> None:
        self._report, self._done = report, 0
        self._stage: Stage | None = None

    def write(self, text: str) -> int:
        """Read `done total`; anything else is no news."""
        match = re.fullmatch(r"(\d+) (\d+)", text.strip())
        if match:
            done, total = int(match[1]), int(match[2])
            self._stage = self._stage or Stage("UMAP", total, self._report, ROUNDS)
            self._stage.advance(done - self._done)
            self._done = done
            if done == total:
                self._stage.finish()
        return len(text)
