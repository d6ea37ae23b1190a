"""Images that went from one cluster to another between two runs: grouped by where from and where to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.compare import Comparison

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Move:
    """Images that went from one cluster to another."""

    before: int
    after: int
    ids: Ids

    def sample(self, most: int) -> Ids:
        """Some of the images, spread over all of them and not only the first."""
        count = len(self.ids)
        return self.ids[np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))]


def moves_of(found: Comparison) -> tuple[Move, ...]:
    """Which images went from which cluster to which, most first."""
    if not len(found.moved_ids):
        return ()
    pairs = np.stack([found.moved_from, found.moved_to], axis=1)
    kinds, numbers = np.unique(pairs, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    moves = [Move(int(one[0]), int(one[1]), found.moved_ids[numbers == place]) for place, one in enumerate(kinds)]
    return tuple(sorted(moves, key=lambda move: -len(move.ids)))
