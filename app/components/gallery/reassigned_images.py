"""Images that a second run assigns to another cluster, between examples of the two clusters."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.common.metadata_line import Fact, show_facts
from app.components.gallery.tiles import format_thumbnails
from app.view_models.cluster_view import MOST_CONFIDENT, RunView
from app.view_models.run_comparison import Reassignment
from crlc.formatting import format_count

IMAGES_PER_ROW = 8
"""Reassigned images in a row."""

_EXAMPLES_PER_CLUSTER = 3


def show_reassigned_images(before: RunView, after: RunView, move: Reassignment, *, most: int = IMAGES_PER_ROW) -> None:
    """Show the images reassigned from one cluster to another, in a frame.

    Args:
        before: the first run.
        after: the second run.
        move: the images and their two clusters.
        most: maximum number of images to show.
    """
    count = len(move.ids)
    shown = move.sample(most)
    some = "" if len(shown) == count else f", showing {len(shown)}"
    with st.container(border=True):
        titles = st.columns([_EXAMPLES_PER_CLUSTER, IMAGES_PER_ROW, _EXAMPLES_PER_CLUSTER], gap="medium")
        with titles[0]:
            show_facts([], f"Before: {before.format_cluster(move.before)}", before.get_colour(move.before))
        with titles[1]:
            text = f"{format_count(count, 'image')} reassigned{some}"
            show_facts([Fact(text, "On both sides: the most confident images of the two clusters.")])
        with titles[2]:
            show_facts([], f"Now: {after.format_cluster(move.after)}", after.get_colour(move.after))
        left, middle, right = st.columns([_EXAMPLES_PER_CLUSTER, IMAGES_PER_ROW, _EXAMPLES_PER_CLUSTER], gap="medium")
        left.html(format_thumbnails(before, _sort_by_confidence(before, move.before), columns=_EXAMPLES_PER_CLUSTER))
        middle.html(format_thumbnails(after, after.find_rows(shown), columns=IMAGES_PER_ROW))
        right.html(format_thumbnails(after, _sort_by_confidence(after, move.after), columns=_EXAMPLES_PER_CLUSTER))


def _sort_by_confidence(view: RunView, cluster: int) -> NDArray[np.int64]:
    """Return the most confident images of a cluster; unlike the most typical images, they need no neighbour search."""
    rows = np.flatnonzero(view.clusters == cluster)
    return view.sort_rows(rows, MOST_CONFIDENT)[:_EXAMPLES_PER_CLUSTER]
