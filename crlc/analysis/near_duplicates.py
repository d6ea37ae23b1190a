"""Groups of near-duplicate images: by the similarity of their features, or by their perceptual hashes."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.normalization import CHUNK_ROWS
from crlc.analysis.perceptual_hash import PerceptualHashes, count_differing_bits, have_same_brightness
from crlc.arrays import FloatArray, IntArray
from crlc.errors import UsageError

DEFAULT_MIN_SIMILARITY = 0.98
MAX_DIFFERING_BITS = 4
_MAX_COMPARED_HASHES = 64
"""Maximum number of hashes with the same half of the bands that a hash is compared with. More are not needed: such
images are already linked to each other."""

_ROUNDING = np.float32(1e-6)
"""Tolerance for rounding: the computed cosine similarity of copies is 0.9999999."""


class DuplicateGroup(NamedTuple):
    """Images that are connected by pairs of near duplicates."""

    rows: IntArray
    """Row indices, ascending."""

    score: float
    """Cosine similarity, or fraction of equal bits, of the least similar pair in the group."""


def find_duplicates_by_features(
    graph: Neighbours, min_similarity: float = DEFAULT_MIN_SIMILARITY
) -> list[DuplicateGroup]:
    """Return groups of images linked by a cosine similarity of at least `min_similarity`, largest group first.

    Raises:
        UsageError: the similarity is not above 0 and at most 1.
    """
    check_min_similarity(min_similarity)
    least = np.float32(min_similarity) - _ROUNDING
    pairs, scores = [], []
    for start in range(0, len(graph.positions), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        row, rank = np.nonzero(graph.similarity[part] >= least)
        pairs.append(np.stack([row + start, graph.positions[part][row, rank]], axis=1))
        scores.append(graph.similarity[part][row, rank])
    return _connect_pairs(np.concatenate(pairs), np.concatenate(scores), len(graph.positions))


def find_duplicates_by_hash(hashes: PerceptualHashes, max_bits: int = 3) -> list[DuplicateGroup]:
    """Return groups of equally bright images whose hashes differ in at most `max_bits` of 64 bits, largest group first.

    Each hash is cut into 2 * `max_bits` bands. Two hashes that differ in at most `max_bits` bits agree in at least half
    of the bands, so it is enough to sort by every half of the bands and compare adjacent hashes.

    Raises:
        UsageError: `max_bits` is not from 0 to `MAX_DIFFERING_BITS`.
    """
    check_max_bits(max_bits)
    count = len(hashes.hashes)
    found = [_pair_equal_hashes(hashes)]
    unique, first = np.unique(hashes.hashes, return_index=True)
    if max_bits:
        found += [first[pair] for pair in _pair_similar_hashes(unique, max_bits)]
    pairs = np.concatenate(found)
    pairs = pairs[have_same_brightness(hashes, pairs[:, 0], pairs[:, 1])]
    differing = count_differing_bits(hashes.hashes[pairs[:, 0]], hashes.hashes[pairs[:, 1]])
    return _connect_pairs(pairs, (1 - differing / 64).astype(np.float32), count)


def check_min_similarity(min_similarity: float) -> None:
    """Check a minimum cosine similarity.

    Raises:
        UsageError: it is not above 0 and at most 1.
    """
    if not 0 < min_similarity <= 1:
        raise UsageError(
            f"A similarity of {min_similarity} is not allowed: it must be above 0 and at most 1 "
            f"({DEFAULT_MIN_SIMILARITY} is usual)."
        )


def check_max_bits(max_bits: int) -> None:
    """Check a number of differing bits.

    Raises:
        UsageError: it is not from 0 to `MAX_DIFFERING_BITS`.
    """
    if not 0 <= max_bits <= MAX_DIFFERING_BITS:
        raise UsageError(f"{max_bits} differing bits are not allowed: it must be 0 to {MAX_DIFFERING_BITS} bits.")


def _pair_equal_hashes(hashes: PerceptualHashes) -> IntArray:
    """Return pairs of images with the same hash, each image with the next brighter one, (P, 2)."""
    order = np.lexsort((hashes.thumbnails.mean(axis=(1, 2)), hashes.hashes))
    same = hashes.hashes[order[1:]] == hashes.hashes[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]], axis=1)


def _pair_similar_hashes(unique: NDArray[np.uint64], max_bits: int) -> list[IntArray]:
    """Return pairs of indices of `unique` whose hashes differ in at most `max_bits` bits, (P, 2) each."""
    bands = np.array_split(np.arange(64, dtype=np.uint64), 2 * max_bits)
    masks = [np.bitwise_or.reduce(np.uint64(1) << band) for band in bands]
    found = []
    for half in combinations(masks, max_bits):
        key = unique & np.bitwise_or.reduce(np.array(half))
        order = np.argsort(key, kind="stable")
        key, hashes = key[order], unique[order]
        index = np.arange(len(key))
        for step in range(1, _MAX_COMPARED_HASHES + 1):
            index = index[index + step < len(key)]
            index = index[key[index] == key[index + step]]  # keys are sorted: if these differ, all later ones do
            if not len(index):
                break
            near = index[count_differing_bits(hashes[index], hashes[index + step]) <= max_bits]
            found.append(np.stack([order[near], order[near + step]], axis=1))
    return found


def _connect_pairs(pairs: IntArray, scores: FloatArray, count: int) -> list[DuplicateGroup]:
    """Return connected components of at least two images, largest first, then by first row."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(pairs):
        return []
    links: Any = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, component = connected_components(links, directed=False)
    used = np.unique(pairs)
    lowest = np.full(count, np.inf, dtype=np.float32)
    np.minimum.at(lowest, component[pairs[:, 0]], scores)
    order = used[np.argsort(component[used], kind="stable")]
    numbers, starts = np.unique(component[order], return_index=True)
    groups = [
        DuplicateGroup(rows, min(1.0, float(lowest[number])))
        for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True)
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), int(group.rows[0])))
