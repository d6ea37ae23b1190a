"""Colours of clusters: the palette, and the assignment of colours. A cluster keeps its colour in the next run.

The twenty colours were found by a search that maximised their CIEDE2000 distance (2 is just noticeable side by side).
Any two of the first ten differ by more than 18 in normal vision, and by more than 9.5 without red, green or blue cones;
any two of the twenty by more than 11 and 8. This is enough to distinguish twenty adjacent clusters. To find one cluster
among twenty, hover its name in the legend, which dims the others. Every colour is visible on a white and on a dark
page. The first four are close to those of Okabe and Ito.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crlc.analysis.class_metrics import compute_contingency, match_clusters
from crlc.arrays import IntArray

PALETTE = (
    "#0077bb",
    "#ee9900",
    "#009977",
    "#cc77aa",
    "#ff0066",
    "#55bbee",
    "#996600",
    "#aa1177",
    "#bbcc99",
    "#336644",
    "#eeaabb",
    "#cc7722",
    "#7788ff",
    "#6611ff",
    "#bb1144",
    "#55ee66",
    "#dd11aa",
    "#996688",
    "#99dddd",
    "#bbaa66",
)
"""Hexadecimal RGB values; the colour of a cluster is an index into this tuple."""

PALETTE_SIZE = len(PALETTE)
"""With more clusters than this, several share a colour."""


def assign_first_colours(count: int) -> tuple[int, ...]:
    """Return the colours of a run without a previous run: palette indices in the order of its clusters."""
    return tuple(number % PALETTE_SIZE for number in range(count))


def inherit_colours(
    previous_colours: Sequence[int], previous: IntArray, current: IntArray, count: int
) -> tuple[int, ...]:
    """Return the colours of a run: each cluster inherits the colour of the matching cluster of the previous run.

    Clusters are matched one to one by their common images. Clusters without a match get colours that the previous run
    did not use; no colour is used twice while one is free.

    Args:
        previous_colours: the colour of each cluster of the previous run.
        previous: the cluster of each common image in the previous run, (N,).
        current: the cluster of each common image in the current run, (N,).
        count: number of clusters of the current run.
    """
    colours = [-1] * count
    if len(previous):
        match, common = match_clusters(previous, current), compute_contingency(previous, current)
        pairs = [(int(common[old, new]), old, int(new)) for old, new in enumerate(match) if new >= 0]
        max_uses = -(-count // PALETTE_SIZE)
        for _, old, new in sorted(pairs, key=lambda pair: (-pair[0], pair[1])):
            colour = previous_colours[old]
            if colours.count(colour) < max_uses:
                colours[new] = colour
    return _fill_missing(colours, previous_colours)


def extend_colours(colours: Sequence[int], count: int) -> tuple[int, ...]:
    """Return colours for `count` clusters: existing clusters keep theirs, and clusters added by splits get new ones."""
    return _fill_missing([*colours, *[-1] * (count - len(colours))], colours)


def _fill_missing(colours: list[int], previously_used: Sequence[int]) -> tuple[int, ...]:
    """Replace -1 by the least used colour; of several, the first that was not used before."""
    uses = np.bincount([colour for colour in colours if colour >= 0], minlength=PALETTE_SIZE)
    was_used = np.isin(np.arange(PALETTE_SIZE), previously_used)
    for cluster, colour in enumerate(colours):
        if colour < 0:
            chosen = int(np.lexsort((was_used, uses))[0])
            colours[cluster] = chosen
            uses[chosen] += 1
    return tuple(colours)
