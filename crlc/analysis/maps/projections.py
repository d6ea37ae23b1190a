"""PCA, UMAP and t-SNE maps: features projected to two dimensions, and coordinates for new images.

UMAP and t-SNE use the neighbour graph of this package instead of their own, and both start from the PCA map, so that
the overall shape is the same in all maps. The same features, seed and library versions give the same map.
UMAP and t-SNE cannot be interrupted: `crlc.analysis.maps.process` runs them in a child process that can be ended.
"""

from __future__ import annotations

import numpy as np

from crlc.analysis.maps.settings import DEFAULT_PERPLEXITY, MapSettings
from crlc.analysis.maps.umap_layout import compute_umap_layout
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.normalization import check_features, iterate_normalized_chunks
from crlc.arrays import Features, FloatArray
from crlc.errors import UsageError
from crlc.progress import ROUNDS, ProgressCallback, ProgressStage, no_progress

UMAP_NEIGHBOURS = 15
_NEIGHBOURS_PER_PERPLEXITY = 3
_MIN_ROWS = 8
"""UMAP and t-SNE maps of fewer rows are meaningless: the PCA map is returned instead."""

_EPOCHS, _MANY_ROWS, _EPOCHS_FOR_MANY_ROWS = 500, 10_000, 200
"""UMAP's default for more rows is 200 epochs. Starting from a PCA map, 120 preserve 99.4 % as many neighbours (60,000
rows)."""

_INITIAL_NOISE = 1e-4
"""Standard deviation of the noise on the initial coordinates, as a fraction of their extent."""

_TSNE_EARLY_ITERATIONS, _TSNE_ITERATIONS = 250, 500
_TSNE_REPORT_INTERVAL = 10
_TSNE_INITIAL_DEVIATION = 1e-4
_COPY_DISTANCE = 1e-6


def compute_map(
    features: Features,
    settings: MapSettings,
    graph: Neighbours | None = None,
    report: ProgressCallback = no_progress,
) -> FloatArray:
    """Compute a map in this process.

    Args:
        features: (N, d), normalised or not.
        settings: method and parameters.
        graph: neighbours of each row for UMAP and t-SNE; computed when None.
        report: receives the progress.

    Returns:
        Coordinates (N, 2).

    Raises:
        UsageError: the features are not a table, or the graph does not fit them.
    """
    if settings.method == "pca":
        return compute_pca_map(features, report=report)
    if settings.method == "umap":
        return compute_umap_map(features, graph, report=report, **settings.relevant)
    return compute_tsne_map(features, graph, report=report, **settings.relevant)


def compute_pca_map(features: Features, *, report: ProgressCallback = no_progress) -> FloatArray:
    """Project normalised features to their first two principal components, (N, 2); reads them twice, in chunks.

    Raises:
        UsageError: the features are not a table.
    """
    check_features(features)
    count, dimensions = features.shape
    total, products = np.zeros(dimensions), np.zeros((dimensions, dimensions))
    stage = ProgressStage("PCA", 2 * count, report, "rows")
    for _, chunk in iterate_normalized_chunks(features):
        total += chunk.sum(axis=0, dtype=np.float64)
        products += (chunk.T @ chunk).astype(np.float64)
        stage.advance(len(chunk))
    mean = total / count
    _, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
    axes = np.zeros((dimensions, 2))
    axes[:, : min(2, dimensions)] = vectors[:, ::-1][:, :2]
    coordinates = np.empty((count, 2), dtype=np.float32)
    skewness = np.zeros(2)
    for start, chunk in iterate_normalized_chunks(features):
        part = (chunk - mean) @ axes
        coordinates[start : start + len(chunk)] = part
        skewness += (part**3).sum(axis=0)
        stage.advance(len(chunk))
    stage.finish()
    # The sign of an eigenvector is arbitrary: the longer tail is on the positive side. Unlike a rule about components,
    # this gives a part of the images, or rotated features, the same map.
    coordinates *= np.where(skewness < 0, -1, 1).astype(np.float32)
    return coordinates


def count_needed_neighbours(method: str, count: int, *, perplexity: float = DEFAULT_PERPLEXITY) -> int:
    """Return the number of neighbours per row that a map of `count` rows needs; 0 when it needs none.

    Args:
        method: one of `MAP_METHODS`.
        count: number of rows.
        perplexity: perplexity of t-SNE; the other methods ignore it.
    """
    if method == "pca" or count < _MIN_ROWS:
        return 0
    needed = UMAP_NEIGHBOURS - 1 if method == "umap" else round(_NEIGHBOURS_PER_PERPLEXITY * perplexity)
    return min(needed, count - 1)


def compute_umap_map(
    features: Features,
    graph: Neighbours | None = None,
    *,
    min_dist: float = 0.1,
    epochs: int | None = None,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> FloatArray:
    """Compute a UMAP map with cosine distances, (N, 2).

    Args:
        features: (N, d), normalised or not.
        graph: at least `count_needed_neighbours("umap", N)` neighbours of each row; computed when None.
        min_dist: minimum distance between points.
        epochs: by default 500 up to 10,000 images, 120 above.
        seed: seed of the optimisation.
        report: receives the progress.

    Raises:
        UsageError: the features are not a table, or the graph does not fit them.
    """
    initial = compute_pca_map(features)
    k = count_needed_neighbours("umap", len(features))
    if not k:
        return initial
    return compute_umap_layout(
        _prepare_graph(graph, features, k, report),
        _add_noise(initial, seed),
        min_dist=min_dist,
        epochs=epochs or (_EPOCHS if len(features) <= _MANY_ROWS else _EPOCHS_FOR_MANY_ROWS),
        seed=seed,
        report=report,
    )


def compute_tsne_map(
    features: Features,
    graph: Neighbours | None = None,
    *,
    perplexity: float = DEFAULT_PERPLEXITY,
    seed: int = 0,
    threads: int = 1,
    report: ProgressCallback = no_progress,
) -> FloatArray:
    """Compute a t-SNE map (openTSNE) from the Euclidean distances of unit vectors, (N, 2).

    Args:
        features: (N, d), normalised or not.
        graph: at least `count_needed_neighbours("tsne", N)` neighbours of each row; computed when None.
        perplexity: effective number of neighbours; reduced when there are few images.
        seed: seed of the optimisation.
        threads: more than one is faster for many images, but the map is then not reproducible.
        report: receives the progress.

    Raises:
        UsageError: the features are not a table, the graph does not fit them, or the perplexity is below 1.
    """
    if not perplexity >= 1:
        raise UsageError(f"perplexity={perplexity} is not allowed: it must be at least 1 (30 is usual).")
    initial = compute_pca_map(features)
    k = count_needed_neighbours("tsne", len(features), perplexity=perplexity)
    if not k:
        return initial
    positions, similarity = _prepare_graph(graph, features, k, report)
    from openTSNE import TSNE, affinity, nearest_neighbors

    distances = np.sqrt(np.maximum(2 - 2 * similarity, 0))
    affinities = affinity.PerplexityBasedNN(
        perplexity=min(perplexity, k / _NEIGHBOURS_PER_PERPLEXITY),
        knn_index=nearest_neighbors.PrecomputedNeighbors(positions, distances),
        n_jobs=threads,
    )
    stage = ProgressStage("t-SNE", _TSNE_EARLY_ITERATIONS + _TSNE_ITERATIONS, report, ROUNDS)

    def advance(*_: object) -> None:
        stage.advance(_TSNE_REPORT_INTERVAL)

    model = TSNE(
        n_jobs=threads,
        early_exaggeration_iter=_TSNE_EARLY_ITERATIONS,
        n_iter=_TSNE_ITERATIONS,
        random_state=seed,
        callbacks=advance,
        callbacks_every_iters=_TSNE_REPORT_INTERVAL,
    )
    noisy = _add_noise(initial, seed).astype(np.float64)
    scale = _TSNE_INITIAL_DEVIATION / noisy[:, 0].std()
    coordinates = model.fit(affinities=affinities, initialization=noisy * scale)
    stage.finish()
    return np.ascontiguousarray(coordinates, dtype=np.float32)


def place_new_images(coordinates: FloatArray, found: Neighbours) -> FloatArray:
    """Return coordinates of new images: the mean of their neighbours, weighted by similarity, (M, 2).

    A copy of an image on the map gets exactly its coordinates.

    Args:
        coordinates: the map, (N, 2).
        found: neighbours of the M new images among the N images, nearest first.
    """
    distances = np.maximum(1 - found.similarity.astype(np.float64), 0)
    beyond = distances - distances[:, :1]
    # As in UMAP: distances beyond the nearest neighbour, relative to their mean.
    scale = beyond.mean(axis=1, keepdims=True)
    weights = np.exp(-beyond / np.where(scale > 0, scale, 1))
    copies = distances < _COPY_DISTANCE
    weights = np.where(copies.any(axis=1, keepdims=True), copies, weights)
    weights /= weights.sum(axis=1, keepdims=True)
    weighted: FloatArray = np.einsum("mk,mkc->mc", weights, coordinates[found.positions]).astype(np.float32)
    return weighted


def _prepare_graph(graph: Neighbours | None, features: Features, k: int, report: ProgressCallback) -> Neighbours:
    """Return the first k neighbours of the given graph, or build one."""
    if graph is None:
        return build_neighbour_graph(features, k, report=report)
    shape = graph.positions.shape
    if shape[0] != len(features) or shape[1] < k or graph.similarity.shape != shape:
        raise UsageError(
            f"A neighbour graph of shape {shape} is not allowed: "
            f"this map of {len(features)} images needs at least {k} neighbours of each."
        )
    return Neighbours(np.ascontiguousarray(graph.positions[:, :k]), np.ascontiguousarray(graph.similarity[:, :k]))


def _add_noise(coordinates: FloatArray, seed: int) -> FloatArray:
    """Return coordinates with a little noise, so that equal images can separate and a line can become an area."""
    extent = float(np.ptp(coordinates, axis=0).max()) or 1.0
    noise = np.random.default_rng(seed).normal(scale=_INITIAL_NOISE * extent, size=coordinates.shape)
    return (coordinates + noise).astype(np.float32)
