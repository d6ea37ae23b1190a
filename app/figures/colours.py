"""Colours of clusters, labels, classes and scales: the same on every page and in every run."""

from __future__ import annotations

from crlc.analysis.cluster_colours import PALETTE

UNKNOWN_COLOUR = "#8c8c8c"
"""Colour of images without a cluster, label or class."""

SEQUENTIAL_RAMP = ("#443a83", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725")
"""Colours from low to high values; lightness grows with the value, so that they are readable without colour vision."""


def get_colour(number: int) -> str:
    """Return the colour of a cluster, label or class by its number; colours repeat after twenty."""
    return UNKNOWN_COLOUR if number < 0 else PALETTE[number % len(PALETTE)]
