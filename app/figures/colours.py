"""Colours of clusters, labels, classes and scales: the same on every page and in every run.

The twenty colours were chosen by search, by their distance in CIEDE2000 (2 is just noticeable beside each other).
Every two of the first ten differ by more than 18 as seen with normal vision, and by more than 9.5 without red, green
or blue cones; of all twenty by more than 11 and 8. That is enough to tell twenty clusters apart where they lie side by
side; to find one among twenty again, hover its name in the legend, which also dims all others. None is so light or so
dark that it would vanish on a white or a dark page. The first four are close to those of Okabe and Ito.
"""

from __future__ import annotations

DISTINCT = (
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
UNKNOWN = "#8c8c8c"
"""Of what has no cluster, label or class."""

RAMP = ("#443a83", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
"""From low to high: darker to lighter, so that it is read without colours, too."""

RIGHT, WRONG = "#009e73", "#d1344b"


def colour_of(number: int) -> str:
    """The colour of a cluster, or of a label or class by its number; after twenty they begin again."""
    return UNKNOWN if number < 0 else DISTINCT[number % len(DISTINCT)]
