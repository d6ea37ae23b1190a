"""Moved images between examples of the cluster they were in and of the one they are in now."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.components.facts import Fact, show_facts
from app.components.tiles import thumbnails
from app.exploring.subject import RunSubject
from app.moves import Move

MOVED = 8
"""Moved images in a row."""

_EXAMPLES = 3


def show_move(before: RunSubject, after: RunSubject, move: Move, *, most: int = MOVED) -> None:
    """One move in a frame: where from, which images, where to.

    Args:
        before: the run they were looked at in first.
        after: the other one.
        move: which images went where.
        most: how many of them to show.
    """
    count = len(move.ids)
    shown = move.sample(most)
    some = "" if len(shown) == count else f", {len(shown)} of them shown"
    with st.container(border=True):
        titles = st.columns([_EXAMPLES, MOVED, _EXAMPLES], gap="medium")
        with titles[0]:
            show_facts([], f"was in {before.cluster_text(move.before)}", before.colour_of(move.before))
        with titles[1]:
            said = f"{count:,} image{'' if count == 1 else 's'} moved{some}"
            show_facts([Fact(said, "Left and right of them: what the two runs are most sure of in these clusters.")])
        with titles[2]:
            show_facts([], f"now in {after.cluster_text(move.after)}", after.colour_of(move.after))
        left, middle, right = st.columns([_EXAMPLES, MOVED, _EXAMPLES], gap="medium")
        left.html(thumbnails(before, _surest(before, move.before), columns=_EXAMPLES))
        middle.html(thumbnails(after, after.rows_of(shown), columns=MOVED))
        right.html(thumbnails(after, _surest(after, move.after), columns=_EXAMPLES))


def _surest(subject: RunSubject, cluster: int) -> np.ndarray:
    """The images that a run is most sure of: no neighbours have to be found for that."""
    rows = np.flatnonzero(subject.clusters == cluster)
    return subject.ordered(rows, "most sure")[:_EXAMPLES]
