"""Suggestions: clusters that may be one, and clusters that may be two, each with one button."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.components.editing import merge, split
from app.components.facts import Fact, show_facts
from app.components.tiles import thumbnails
from app.exploring.subject import RunSubject

_SHOWN = 6
_IMAGES = 8


def show_suggestions(subject: RunSubject) -> None:
    """What a person may want to merge or split."""
    merges, splits = subject.advice(_SHOWN)
    if not merges and not splits:
        st.info("Nothing stands out: no two clusters are mixed, and none looks like two.")
    for one in merges:
        facts = [
            Fact(f"mixing {one.mixing:.2f}", "0: no image has a neighbour in the other; 1: as if the two were one."),
            Fact(f"{one.crossing:.0%} of neighbours", "Share of the neighbours of either that are in the other."),
            Fact(f"{one.first_size:,} and {one.second_size:,} images", "How many images they have."),
        ]
        with st.container(border=True):
            text, button = st.columns([5, 1], vertical_alignment="center")
            with text:
                both = f"{subject.cluster_text(one.first)} and {subject.cluster_text(one.second)} may be one"
                show_facts(facts, both)
            button.button(
                "Merge",
                key=f"suggested-merge-{one.first}-{one.second}",
                on_click=merge,
                args=(subject, [one.first, one.second]),
                width="stretch",
            )
            left, right = st.columns(2)
            left.html(_typical(subject, one.first))
            right.html(_typical(subject, one.second))
    for other in splits:
        facts = [
            Fact(f"separation {other.separation:.2f}", "0: one group; 1: two groups far apart."),
            Fact(f"about {other.sizes[0]:,} and {other.sizes[1]:,} images", "On either side."),
        ]
        with st.container(border=True):
            text, button = st.columns([5, 1], vertical_alignment="center")
            with text:
                show_facts(facts, f"{subject.cluster_text(other.cluster)} may be two")
            button.button(
                "Split",
                key=f"suggested-split-{other.cluster}",
                on_click=split,
                args=(subject, other.cluster, 2),
                width="stretch",
            )
            for column, example in zip(st.columns(2), other.examples, strict=True):
                row = subject.row_of(example)
                near = subject.nearest(row, 4 * _IMAGES).rows
                alike = near[subject.clusters[near] == other.cluster][: _IMAGES - 1]
                column.html(thumbnails(subject, np.concatenate([[row], alike]), columns=_IMAGES))


def _typical(subject: RunSubject, cluster: int) -> str:
    rows = np.flatnonzero(subject.clusters == cluster)
    return thumbnails(subject, subject.ordered(rows, "most typical")[:_IMAGES], columns=_IMAGES)
