"""Suggested merges and splits of clusters, each with its reason in words and buttons to follow or dismiss it."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.components.clusters.editing import merge_clusters
from app.components.clusters.splitting import open_split_preview
from app.components.common.safe_text import show_caption
from app.components.gallery.thumbnails import show_thumbnails
from app.state.exploring import get_explore_state
from app.view_models.cluster_view import RunView
from app.view_models.suggested_edits import IMAGES_PER_SIDE, SuggestedEdit, dismiss, list_suggestions, restore_dismissed
from crlc.errors import CrlcError
from crlc.formatting import format_count

_SUGGESTIONS_PER_KIND = 6
_MERGED = 2


def show_suggestions(view: RunView) -> None:
    """Show pairs of clusters that could be merged, and clusters that could be split."""
    suggestions, dismissed = list_suggestions(view, _SUGGESTIONS_PER_KIND)
    if not suggestions:
        st.info("No suggestions: no two clusters overlap, and no cluster looks like two." if not dismissed else
                "No further suggestions.")  # fmt: skip
    for one in suggestions:
        _show_suggestion(view, one)
    if dismissed:
        with st.container(horizontal=True, vertical_alignment="center"):
            show_caption(f"{format_count(dismissed, 'suggestion')} dismissed.")
            st.button("Show dismissed", key="restore-suggestions", on_click=_store, args=(view, None), type="tertiary")


def _show_suggestion(view: RunView, one: SuggestedEdit) -> None:
    names = " and ".join(map(view.format_cluster, one.clusters))
    numbers = "-".join(map(str, one.clusters))
    is_merge = len(one.clusters) == _MERGED
    with st.container(border=True):
        text, button, other = st.columns([6, 1.3, 1], vertical_alignment="center")
        text.html(
            f"<b>Could be {'merged' if is_merge else 'split'}: {escape(names)}</b>"
            f"<div title='{escape(one.evidence)}' style='font-size:.9rem'>{escape(one.reason)}</div>"
        )
        if is_merge:
            button.button(
                "Merge clusters",
                key=f"suggested-merge-{numbers}",
                on_click=merge_clusters,
                args=(view, list(one.clusters)),
                width="stretch",
            )
        else:
            button.button(
                "Preview split",
                key=f"suggested-split-{numbers}",
                on_click=open_split_preview,
                args=one.clusters,
                width="stretch",
            )
        other.button(
            "Dismiss",
            key=f"dismiss-{numbers}",
            on_click=_store,
            args=(view, one),
            width="stretch",
            help="Hides the suggestion until the clusters have changed.",
        )
        for column, rows, side in zip(st.columns(2), one.sides, "ab", strict=True):
            with column:
                show_thumbnails(view, rows, key=f"suggested-{numbers}-{side}", columns=IMAGES_PER_SIDE)


def _store(view: RunView, dismissed: SuggestedEdit | None) -> None:
    """Dismiss a suggestion; `None` restores all of them."""
    state = get_explore_state()
    state.saved = state.problem = None
    try:
        if dismissed is None:
            restore_dismissed(view)
        else:
            dismiss(view, dismissed)
    except (CrlcError, OSError) as error:
        state.problem = str(error)
