"""UMAP of a given neighbour graph: the fuzzy graph, and its layout in two dimensions by stochastic gradient descent.

The method is that of umap-learn (McInnes et al. 2018; tests compare both), for this one case: neighbours and initial
coordinates are given, and the result needs no model for new data. Importing umap-learn takes 1.2 s, because it imports
scikit-learn and pynndescent, and its functions take 3 s to compile in every process; the one compiled function of this
module takes 0.5 s, or 0.2 s from numba's cache on disk. It has no threads, so none of them can spin on a busy computer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from crlc.analysis.neighbours.exact import Neighbours
from crlc.arrays import FloatArray
from crlc.progress import ROUNDS, ProgressCallback, ProgressStage, no_progress

_ROWS_PER_CHUNK = 1 << 16
_MAX_BISECTIONS = 64
_SUM_TOLERANCE = 1e-5
_MIN_SCALE_PER_MEAN_DISTANCE = 1e-3
_CURVE_POINTS, _CURVE_EXTENT = 300, 3.0
_INITIAL_EXTENT = 10.0
_CALLS_PER_LAYOUT = 50
"""The compiled function returns this number of times to report progress."""

_SIGNATURE = "void(f4[:, ::1], i4[:, ::1], f4[:, ::1], f4[::1], u8[::1], UniTuple(i8, 3))"

# Constants of the compiled function, in single precision: a double would make it compute in double precision.
_ONE, _TWO = np.float32(1), np.float32(2)
_MAX_STEP = np.float32(4)
_MIN_SQUARED_DISTANCE = np.float32(0.001)
_NEGATIVES_PER_EDGE = 5
_HALF_BITS = np.uint64(32)
# Linear congruential generator with 64 bits of state (Knuth's MMIX), of which the upper 32 bits are used.
_GENERATOR_FACTOR, _GENERATOR_INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


def compute_umap_layout(
    graph: Neighbours,
    initial: FloatArray,
    *,
    min_dist: float,
    epochs: int,
    seed: int,
    report: ProgressCallback = no_progress,
) -> FloatArray:
    """Compute the UMAP layout of a neighbour graph, (N, 2); the same seed gives the same layout.

    Args:
        graph: neighbours of the N rows, nearest first.
        initial: initial coordinates (N, 2); the extent of both axes is above 0.
        min_dist: minimum distance between points.
        epochs: number of passes over the edges.
        seed: seed of the negative samples.
        report: receives the progress.
    """
    fuzzy = build_fuzzy_graph(graph).tocoo()
    # In each epoch an edge is drawn with a frequency proportional to its weight, the strongest one every time.
    period = fuzzy.data.max() / fuzzy.data
    is_drawn = period <= epochs
    edges = np.stack([fuzzy.row[is_drawn], fuzzy.col[is_drawn]], axis=1).astype(np.int32)
    draws = np.stack([period[is_drawn]] * 2, axis=1).astype(np.float32)
    lowest = initial.min(axis=0)
    coordinates = _INITIAL_EXTENT * (initial - lowest) / (initial.max(axis=0) - lowest)
    coordinates = np.ascontiguousarray(coordinates, dtype=np.float32)
    random_state = np.random.default_rng(seed).integers(2**64, size=1, dtype=np.uint64)
    curve = np.array(fit_similarity_curve(min_dist), dtype=np.float32)
    run_epochs = load_compiled_epochs()
    stage = ProgressStage("UMAP", epochs, report, ROUNDS)
    step = max(1, epochs // _CALLS_PER_LAYOUT)
    for first in range(0, epochs, step):
        last = min(first + step, epochs)
        run_epochs(coordinates, edges, draws, curve, random_state, (first, last, epochs))
        stage.advance(last - first)
    stage.finish()
    return coordinates


def build_fuzzy_graph(graph: Neighbours) -> Any:
    """Return the fuzzy union of the neighbourhoods of all rows, a symmetric sparse matrix (N, N) with weights up to 1.

    Args:
        graph: neighbours of the N rows, nearest first.
    """
    from scipy.sparse import csr_array

    count, k = graph.positions.shape
    mean = float(np.maximum(1 - graph.similarity, 0).sum(dtype=np.float64) / (count * (k + 1)))
    weights = np.empty((count, k), dtype=np.float32)
    for start in range(0, count, _ROWS_PER_CHUNK):
        rows = slice(start, start + _ROWS_PER_CHUNK)
        weights[rows] = _compute_weights(np.maximum(1 - graph.similarity[rows], 0), mean)
    columns = graph.positions.astype(np.int32).ravel()  # a copy: the graph may be a read-only memory map
    directed = csr_array((weights.ravel(), columns, np.arange(0, count * k + 1, k)), (count, count))
    directed.eliminate_zeros()
    reverse = directed.T.tocsr()
    fuzzy = directed + reverse - directed * reverse
    fuzzy.sort_indices()
    return fuzzy


def fit_similarity_curve(min_dist: float) -> tuple[float, float]:
    """Return a and b of 1 / (1 + a d^2b), the similarity on the map at distance d.

    Args:
        min_dist: distance up to which the similarity should be 1; beyond, it should decrease exponentially.
    """
    from scipy.optimize import curve_fit

    distance = np.linspace(0, _CURVE_EXTENT, _CURVE_POINTS)
    similarity = np.where(distance < min_dist, 1, np.exp(-(distance - min_dist)))
    (a, b), _ = curve_fit(lambda d, a, b: 1 / (1 + a * d ** (2 * b)), distance, similarity)
    return float(a), float(b)


@cache
def load_compiled_epochs() -> Callable[..., None]:
    """Return the compiled `_run_epochs`, from numba's cache on disk if it is there."""
    import numba

    try:
        compiled: Callable[..., None] = numba.njit(_SIGNATURE, fastmath=True, cache=True)(_run_epochs)
    except Exception:  # the cache is damaged, or cannot be written: any error of pickle or of the file system
        compiled = numba.njit(_SIGNATURE, fastmath=True)(_run_epochs)
    return compiled


def _compute_weights(distances: FloatArray, mean_of_all: float) -> FloatArray:
    """Return the weights of the edges to the k neighbours of some rows: 1 for the nearest, less for the others.

    The weight is exp(-(d - nearest) / scale), with a scale for each row so that its weights add up to log2(k + 1).

    Args:
        distances: (M, k), at least 0, ascending.
        mean_of_all: mean distance in the whole graph, each row with itself included.
    """
    k = distances.shape[1]
    # Copies of a row have distance 0: the nearest row is the first one that is different.
    nearest = np.where(distances > 0, distances, np.inf).min(axis=1)
    nearest[np.isinf(nearest)] = 0
    beyond = np.maximum(distances - nearest[:, None], 0)
    scale = _find_scales(beyond, np.log2(k + 1))
    mean = np.where(nearest > 0, distances.sum(axis=1) / (k + 1), mean_of_all)
    scale = np.maximum(scale, _MIN_SCALE_PER_MEAN_DISTANCE * mean)
    weights: FloatArray = np.exp(-beyond / scale[:, None])
    return weights


def _find_scales(beyond: FloatArray, target: float) -> FloatArray:
    """Return for each row the scale with which exp(-beyond / scale) adds up to the target, by bisection."""
    count = len(beyond)
    low, high, scale = (np.full(count, value, dtype=np.float32) for value in (0, np.inf, 1))
    active = np.arange(count)
    for _ in range(_MAX_BISECTIONS):
        with np.errstate(over="ignore"):
            total = np.exp(-beyond[active] / scale[active, None]).sum(axis=1)
        active, total = (array[np.abs(total - target) >= _SUM_TOLERANCE] for array in (active, total))
        if not len(active):
            break
        is_large = total > target
        high[active[is_large]] = scale[active[is_large]]
        low[active[~is_large]] = scale[active[~is_large]]
        upper = high[active]
        scale[active] = np.where(np.isinf(upper), 2 * scale[active], (low[active] + upper) / 2)
    return scale


def _run_epochs(
    coordinates: Any, edges: Any, draws: Any, curve: Any, random_state: Any, schedule: tuple[int, int, int]
) -> None:
    """Move the points for some epochs, in place; numba compiles this function with `_SIGNATURE`.

    Args:
        coordinates: (N, 2).
        edges: two rows for each edge, (E, 2).
        draws: for each edge the number of epochs from one draw to the next, and the epoch of the next draw, (E, 2).
        curve: a and b of the similarity curve, (2,).
        random_state: state of the random generator, (1,).
        schedule: number of epochs before this call, after this call, and in total.
    """
    first, last, epochs = schedule
    a, b = curve[0], curve[1]
    count = np.uint64(coordinates.shape[0])
    state = random_state[0]
    for epoch in range(first + 1, last + 1):
        rate = np.float32(1 - (epoch - 1) / epochs)
        for edge in range(edges.shape[0]):
            if draws[edge, 1] > epoch:
                continue
            draws[edge, 1] += draws[edge, 0]
            row, other = edges[edge, 0], edges[edge, 1]
            x, y = coordinates[row, 0], coordinates[row, 1]
            dx, dy = x - coordinates[other, 0], y - coordinates[other, 1]
            squared = dx * dx + dy * dy
            if squared > 0:
                power = squared**b
                pull = -_TWO * a * b * power / (squared * (a * power + _ONE))
                step_x = min(max(pull * dx, -_MAX_STEP), _MAX_STEP) * rate
                step_y = min(max(pull * dy, -_MAX_STEP), _MAX_STEP) * rate
                x += step_x
                y += step_y
                coordinates[other, 0] -= step_x
                coordinates[other, 1] -= step_y
            for _ in range(_NEGATIVES_PER_EDGE):
                state = state * _GENERATOR_FACTOR + _GENERATOR_INCREMENT
                negative = np.int64(((state >> _HALF_BITS) * count) >> _HALF_BITS)
                dx, dy = x - coordinates[negative, 0], y - coordinates[negative, 1]
                squared = dx * dx + dy * dy
                if squared > 0:
                    push = _TWO * b / ((_MIN_SQUARED_DISTANCE + squared) * (a * squared**b + _ONE))
                    x += min(max(push * dx, -_MAX_STEP), _MAX_STEP) * rate
                    y += min(max(push * dy, -_MAX_STEP), _MAX_STEP) * rate
            coordinates[row, 0], coordinates[row, 1] = x, y
    random_state[0] = state
