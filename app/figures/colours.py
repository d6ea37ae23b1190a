"""Colours of clusters, labels, classes and scales: the same on every page and in every run."""

from __future__ import annotations

from crlc.analysis.palette import DISTINCT

UNKNOWN = "#8c8c8c"
"""Of what has no cluster, label or class."""

RAMP = ("#443a83", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
"""From low to high: darker to lighter, so that it is read without colours, too."""

RIGHT, WRONG = "#009e73", "#d1344b"


def colour_of(number: int) -> str:
    """The colour of a cluster, or of a label or class by its number; after twenty they begin again."""
    return UNKNOWN if number < 0 else DISTINCT[number % len(DISTINCT)]
