"""Colours of clusters, labels, classes and scales: the same on every page and in every run.

The twenty colours were chosen by search: every two differ by at least 13 in CIELAB as seen with normal vision, and
without red, green or blue cones; the first six are close to those of Okabe and Ito. They are neither so light nor so
dark that they would vanish on a white or a dark page.
"""

from __future__ import annotations

DISTINCT = (
    "#0077aa",
    "#ee9900",
    "#009977",
    "#cc77aa",
    "#dd6600",
    "#55bbee",
    "#8800ff",
    "#bbdd88",
    "#775522",
    "#bb66ff",
    "#ffbbbb",
    "#ff0066",
    "#aa1177",
    "#55ee55",
    "#9900cc",
    "#dd33bb",
    "#446644",
    "#aaaa55",
    "#77bb88",
    "#7788dd",
)
UNKNOWN = "#8c8c8c"
"""Of what has no cluster, label or class."""

RAMP = ("#443a83", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
"""From low to high: darker to lighter, so that it is read without colours, too."""

RIGHT, WRONG = "#009e73", "#d1344b"


def colour_of(number: int) -> str:
    """The colour of a cluster, or of a label or class by its number; after twenty they begin again."""
    return UNKNOWN if number < 0 else DISTINCT[number % len(DISTINCT)]
