"""Which colour each cluster of a run has, so that what is the same in the run before has the same. Numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crlc.analysis.agreement import contingency
from crlc.analysis.palette import DISTINCT
from crlc.analysis.quality import matched_to
from crlc.analysis.unit_rows import Rows

DISTINCT_COLOURS = len(DISTINCT)
"""How many colours there are; more clusters share them."""


def first_slots(count: int) -> tuple[int, ...]:
    """The colours of a run that has none before it: in the order of its clusters."""
    return tuple(number % DISTINCT_COLOURS for number in range(count))


def inherited_slots(before_slots: Sequence[int], before: Rows, after: Rows, count: int) -> tuple[int, ...]:
    """The colours of a run: those of the clusters that it shares most images with in the run before, one to one.

    Clusters that go with none take colours that mean nothing yet; no colour is used twice while one is free.

    Args:
        before_slots: the colour of each cluster of the run before.
        before: the cluster there of each image that both have, (N,).
        after: its cluster here, (N,).
        count: how many clusters the run has.
    """
    slots = [-1] * count
    if len(before):
        match, shared = matched_to(before, after), contingency(before, after)
        pairs = [(int(shared[old, new]), old, int(new)) for old, new in enumerate(match) if new >= 0]
        most_often = -(-count // DISTINCT_COLOURS)
        for _, old, new in sorted(pairs, key=lambda pair: (-pair[0], pair[1])):
            slot = before_slots[old]
            if slots.count(slot) < most_often:
                slots[new] = slot
    return _completed(slots, before_slots)


def extended_slots(slots: Sequence[int], count: int) -> tuple[int, ...]:
    """The colours after clusters were added by splitting: the others keep theirs."""
    return _completed([*slots, *[-1] * (count - len(slots))], slots)


def _completed(slots: list[int], meant: Sequence[int]) -> tuple[int, ...]:
    """Colours for those that have none (-1): the least used; of these one that meant nothing, the first."""
    used = np.bincount([slot for slot in slots if slot >= 0], minlength=DISTINCT_COLOURS)
    known = np.isin(np.arange(DISTINCT_COLOURS), meant)
    for place, slot in enumerate(slots):
        if slot < 0:
            chosen = int(np.lexsort((known, used))[0])
            slots[place] = chosen
            used[chosen] += 1
    return tuple(slots)
