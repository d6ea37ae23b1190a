"""Suggested merges and splits of clusters, each with one button."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.components.clusters.editing import merge_clusters, split_cluster
from app.components.common.metadata_line import Fact, show_facts
from app.components.gallery.tiles import format_thumbnails
from app.view_models.cluster_view import MOST_TYPICAL, RunView

_SUGGESTIONS_PER_KIND = 6
_IMAGES_PER_CLUSTER = 8


def show_suggestions(view: RunView) -> None:
    """Show pairs of clusters that could be merged, and clusters that could be split."""
    merges, splits = view.suggest_edits(_SUGGESTIONS_PER_KIND)
    if not merges and not splits:
        st.info("No suggestions: no two clusters overlap, and no cluster looks like two.")
    for one in merges:
        facts = [
            Fact(
                f"overlap {one.mixing:.2f}",
                "From 0 (no image has a neighbour in the other cluster) to 1 (as one cluster).",
            ),
            Fact(f"{one.crossing:.0%} shared neighbours", "Fraction of neighbours that are in the other cluster."),
            Fact(f"{one.first_size:,} and {one.second_size:,} images", "Images in the two clusters."),
        ]
        with st.container(border=True):
            text, button = st.columns([5, 1], vertical_alignment="center")
            with text:
                both = f"Could be merged: {view.format_cluster(one.first)} and {view.format_cluster(one.second)}"
                show_facts(facts, both)
            button.button(
                "Merge clusters",
                key=f"suggested-merge-{one.first}-{one.second}",
                on_click=merge_clusters,
                args=(view, [one.first, one.second]),
                width="stretch",
            )
            left, right = st.columns(2)
            left.html(_format_typical_images(view, one.first))
            right.html(_format_typical_images(view, one.second))
    for other in splits:
        facts = [
            Fact(f"separation {other.separation:.2f}", "From 0 (one group) to 1 (two groups far apart)."),
            Fact(f"about {other.sizes[0]:,} and {other.sizes[1]:,} images", "Estimated sizes of the two parts."),
        ]
        with st.container(border=True):
            text, button = st.columns([5, 1], vertical_alignment="center")
            with text:
                show_facts(facts, f"Could be split: {view.format_cluster(other.cluster)}")
            button.button(
                "Split cluster",
                key=f"suggested-split-{other.cluster}",
                on_click=split_cluster,
                args=(view, other.cluster, 2),
                width="stretch",
            )
            for column, example in zip(st.columns(2), other.examples, strict=True):
                row = view.find_row(example)
                near = view.find_nearest(row, 4 * _IMAGES_PER_CLUSTER).rows
                similar = near[view.clusters[near] == other.cluster][: _IMAGES_PER_CLUSTER - 1]
                column.html(format_thumbnails(view, np.concatenate([[row], similar]), columns=_IMAGES_PER_CLUSTER))


def _format_typical_images(view: RunView, cluster: int) -> str:
    rows = np.flatnonzero(view.clusters == cluster)
    return format_thumbnails(
        view, view.sort_rows(rows, MOST_TYPICAL)[:_IMAGES_PER_CLUSTER], columns=_IMAGES_PER_CLUSTER
    )
