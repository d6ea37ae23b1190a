"""Slider for the number of clusters: a preview of the clusters merged or divided, and the edit that keeps it."""

from __future__ import annotations

import streamlit as st

from app.components.clusters.editing import use_level
from app.components.common.safe_text import show_caption, show_error
from app.state.exploring import get_explore_state, set_level, show_levels
from app.state.widgets import get_widget_value, set_widget_value
from app.view_models.cluster_levels import has_levels, load_levels, open_level
from app.view_models.cluster_view import ClusterView, RunView
from crlc.clusters.levels import ClusterLevels
from crlc.errors import UsageError
from crlc.formatting import format_count

_SLIDER, _BUTTON = "cluster-level", "cluster-levels"
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


def show_level_button(view: ClusterView) -> None:
    """Show the button that shows and hides the slider of `show_level_row`.

    Args:
        view: the current clusters, not those of a level.
    """
    if not has_levels(view):
        return
    set_widget_value(_BUTTON, [_TITLE] if get_explore_state().shows_levels else [])
    st.segmented_control(
        _TITLE,
        [_TITLE],
        selection_mode="multi",
        key=_BUTTON,
        format_func=lambda title: f":material/account_tree: {title}",
        on_change=lambda: show_levels(bool(get_widget_value(_BUTTON))),
        label_visibility="collapsed",
        width="stretch",
        help="Shows fewer or more clusters, without training.",
    )


def show_level_row(view: ClusterView) -> None:
    """Show the slider in a row of the page, so that it covers nothing of what it previews.

    Args:
        view: the current clusters, not those of a level.
    """
    if not get_explore_state().shows_levels or not has_levels(view):
        return
    with st.container(key="level-row"):
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

    slider, words, buttons = st.columns([3, 3, 2], vertical_alignment="center", gap="medium")
    slider.slider(
        "Number of clusters",
        levels.coarsest,
        levels.finest,
        key=_SLIDER,
        on_change=change,
        label_visibility="collapsed",
        help="Sets the number of clusters. To the left, the clusters that are most mixed are merged; to the right, "
        "clusters are divided.",
    )
    with words:
        show_caption(_describe_level(view, current, level))
    if level is None:
        return
    with buttons, st.container(horizontal=True, horizontal_alignment="right"):
        if isinstance(view, RunView):
            st.button(
                f"Use {format_count(level, 'cluster')}",
                key="use-level",
                type="primary",
                on_click=use_level,
                args=(view, level),
                help="Merges or splits the clusters of this run. Undo reverts it.",
            )
        st.button(f"Back to {current}", key="leave-level", on_click=set_level, args=(None,))


def _describe_level(view: ClusterView, current: int, level: int | None) -> str:
    if level is None:
        return f"These are the current {format_count(current, 'cluster')}. Move the slider for fewer or more."
    more = "" if isinstance(view, RunView) else " Train to edit clusters."
    return f"Preview of {format_count(level, 'cluster')} instead of {current}. Nothing is saved.{more}"
