"""Slider for the number of clusters: a preview of the clusters merged or divided, and the edit that keeps it."""

from __future__ import annotations

import streamlit as st

from app.components.clusters.editing import use_level
from app.components.common.safe_text import show_caption, show_error
from app.state.exploring import get_explore_state, set_level
from app.state.widgets import get_widget_value, set_widget_value
from app.view_models.cluster_levels import has_levels, load_levels, open_level
from app.view_models.cluster_view import ClusterView, RunView
from crlc.clusters.levels import ClusterLevels
from crlc.errors import UsageError
from crlc.formatting import format_count

_SLIDER = "cluster-level"
_TITLE = "Coarser – finer"  # noqa: RUF001


def open_shown_level(view: ClusterView) -> ClusterView:
    """Return the view of the level that the user has chosen; the view itself if none is chosen."""
    level = get_explore_state().level
    if level is None or not has_levels(view):
        return view
    shown = open_level(view, level)
    if shown is view:
        set_level(None)
    return shown


def show_level_slider(view: ClusterView) -> None:
    """Show a button that opens the slider.

    Args:
        view: the current clusters, not those of a level.
    """
    if not has_levels(view):
        return
    # Always the same text: Streamlit would close the popover with another one.
    popover = st.popover(
        _TITLE,
        key="cluster-levels",
        icon=":material/account_tree:",
        on_change="rerun",  # the levels are computed when they are needed
        width="stretch",
        help="Shows fewer or more clusters, without training.",
    )
    if not popover.open:
        return
    with popover:
        try:
            with st.spinner("Comparing clusters"):
                levels = load_levels(view)
        except UsageError as error:
            show_error(str(error))
            return
        _show_slider(view, levels, get_explore_state().level)


def _show_slider(view: ClusterView, levels: ClusterLevels, level: int | None) -> None:
    if levels.coarsest == levels.finest:
        show_caption("There are too few images to merge or divide clusters.")
        return
    current = levels.current
    set_widget_value(_SLIDER, min(max(level or current, levels.coarsest), levels.finest))

    def change() -> None:
        chosen = get_widget_value(_SLIDER)
        set_level(None if chosen == current else chosen)

    st.slider(
        "Number of clusters",
        levels.coarsest,
        levels.finest,
        key=_SLIDER,
        on_change=change,
        help="Sets the number of clusters. To the left, the clusters that are most mixed are merged; to the right, "
        "clusters are divided.",
    )
    if level is None:
        show_caption(f"These are the current {format_count(current, 'cluster')}.")
        return
    can_edit = isinstance(view, RunView)
    more = "" if can_edit else " Train to edit clusters."
    show_caption(f"Preview of {format_count(level, 'cluster')} instead of {current}. Nothing is saved.{more}")
    with st.container(horizontal=True):
        if can_edit:
            st.button(
                f"Use {format_count(level, 'cluster')}",
                key="use-level",
                type="primary",
                on_click=use_level,
                args=(view, level),
                help="Merges or splits the clusters of this run. Undo reverts it.",
            )
        st.button(f"Back to {current}", key="leave-level", on_click=set_level, args=(None,))
