"""Images that are nearly the same: by their features, and by the look of their pixels. Also the odd ones out."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.nearest import Neighbours
from crlc.analysis.perceptual_hash import Looks, hamming, same_brightness
from crlc.analysis.unit_rows import CHUNK_ROWS, Rows, Vectors
from crlc.errors import UsageError

ALIKE = 0.98
MOST_BITS = 4
_WINDOW = 64
"""How many images with the same half of a hash are compared with each: more only link what is linked already."""


class DuplicateGroup(NamedTuple):
    """Images that hang together by pairs of near copies."""

    rows: Rows
    """In order; the first may stand for all."""

    score: float
    """Of the least alike pair that holds it together: cosine, or the share of equal bits."""


class Outlier(NamedTuple):
    """An image that is far from all others."""

    row: int
    score: float
    """Distance to its neighbours as a multiple of what is usual in its cluster."""


def duplicates_by_features(graph: Neighbours, alike: float = ALIKE) -> list[DuplicateGroup]:
    """Groups of images whose features have at least this cosine, largest group first.

    Raises:
        UsageError: the threshold is not a cosine above 0.
    """
    check_alike(alike)
    least = np.float32(alike) - np.float32(1e-6)  # rounding: copies have 0.9999999
    pairs, scores = [], []
    for start in range(0, len(graph.positions), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        row, rank = np.nonzero(graph.similarity[part] >= least)
        pairs.append(np.stack([row + start, graph.positions[part][row, rank]], axis=1))
        scores.append(graph.similarity[part][row, rank])
    return _groups(np.concatenate(pairs), np.concatenate(scores), len(graph.positions))


def duplicates_by_look(looks: Looks, bits: int = 3) -> list[DuplicateGroup]:
    """Groups of images whose hashes differ in at most so many of 64 bits and that are as bright, largest first.

    Hashes are cut into twice as many bands as bits may differ; then two that are near enough have at least half of the
    bands in common, so it suffices to sort by every half and look at those side by side.

    Raises:
        UsageError: more bits than can be searched this way.
    """
    check_bits(bits)
    count = len(looks.hashes)
    found = [_equal_hashes(looks)]
    unique, first = np.unique(looks.hashes, return_index=True)
    if bits:
        found += [first[pair] for pair in _near_hashes(unique, bits)]
    pairs = np.concatenate(found)
    pairs = pairs[same_brightness(looks, pairs[:, 0], pairs[:, 1])]
    differing = hamming(looks.hashes[pairs[:, 0]], looks.hashes[pairs[:, 1]])
    return _groups(pairs, (1 - differing / 64).astype(np.float32), count)


def check_alike(alike: float) -> None:
    """Refuse a least similarity that is none.

    Raises:
        UsageError: it is not a cosine above 0.
    """
    if not 0 < alike <= 1:
        raise UsageError(f"A similarity of {alike} was given; it must be above 0 and at most 1 (0.98 is usual).")


def check_bits(bits: int) -> None:
    """Refuse a number of differing bits that cannot be searched for.

    Raises:
        UsageError: it says which can.
    """
    if not 0 <= bits <= MOST_BITS:
        raise UsageError(f"{bits} bits were given; hashes of near copies differ in 0 to {MOST_BITS} bits.")


def outliers(score: Vectors, most: int = 50, *, at_least: float = 2.0) -> list[Outlier]:
    """The odd ones, oddest first, by the scores of `image_quality`; ties by row."""
    order = np.argsort(-score, kind="stable")[:most]
    return [Outlier(int(row), float(score[row])) for row in order if score[row] >= at_least]


def _equal_hashes(looks: Looks) -> Rows:
    """Pairs with the same hash, each with the next brighter one."""
    order = np.lexsort((looks.thumbnails.mean(axis=(1, 2)), looks.hashes))
    same = looks.hashes[order[1:]] == looks.hashes[order[:-1]]
    return np.stack([order[:-1][same], order[1:][same]], axis=1)


def _near_hashes(unique: NDArray[np.uint64], bits: int) -> list[Rows]:
    """Pairs of places in `unique` whose hashes differ in at most so many bits."""
    bands = np.array_split(np.arange(64, dtype=np.uint64), 2 * bits)
    masks = [np.bitwise_or.reduce(np.uint64(1) << band) for band in bands]
    found = []
    for half in combinations(masks, bits):
        key = unique & np.bitwise_or.reduce(np.array(half))
        order = np.argsort(key, kind="stable")
        key, hashes = key[order], unique[order]
        here = np.arange(len(key))
        for step in range(1, _WINDOW + 1):
            here = here[here + step < len(key)]
            here = here[key[here] == key[here + step]]  # sorted: those that are past their last have no more
            if not len(here):
                break
            near = here[hamming(hashes[here], hashes[here + step]) <= bits]
            found.append(np.stack([order[near], order[near + step]], axis=1))
    return found


def _groups(pairs: Rows, scores: Vectors, count: int) -> list[DuplicateGroup]:
    """Connected components of at least two, largest first, then by first row."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(pairs):
        return []
    links: Any = coo_array((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, part = connected_components(links, directed=False)
    used = np.unique(pairs)
    least = np.full(count, np.inf, dtype=np.float32)
    np.minimum.at(least, part[pairs[:, 0]], scores)
    order = used[np.argsort(part[used], kind="stable")]
    numbers, starts = np.unique(part[order], return_index=True)
    groups = [
        DuplicateGroup(rows, min(1.0, float(least[number])))
        for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True)
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), int(group.rows[0])))
