"""Filter bar of the Explore page: a form in a popover, search, and a chip for each active filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.components.clusters.level_slider import show_level_button, show_level_row
from app.components.explore.filter_chips import show_filter_chips
from app.components.explore.image_search import show_image_search
from app.components.explore.text_search import show_text_search
from app.state.exploring import (
    SelectedImages,
    get_explore_state,
    select_images,
    set_filters,
    set_level,
    show_columns,
)
from app.state.widgets import get_widget_value, set_widget_value
from app.view_models.cluster_view import ClusterView
from app.view_models.image_filters import (
    ANY_OUTCOME,
    NO_LABEL,
    ActiveFilter,
    ImageFilters,
    describe_filters,
    list_filter_clusters,
    list_filter_labels,
)
from app.view_models.image_selection import OUTCOMES
from crlc.formatting import format_count
from crlc.paths import to_printable

_SELECTION = "selection"
"""Name of the chip of the images that the gallery lists instead of all."""

_LEVEL = "level"
"""Name of the chip of a preview of another number of clusters."""

_COLUMNS, _COLUMNS_TITLE = "explore-columns", "Columns"
_ANY_CLASS = ""
_PERCENT_STEP = 5


def show_filter_bar(view: ClusterView, current: ClusterView) -> None:
    """Show the filters; the bar has the same height with and without active filters.

    Args:
        view: the view whose images are filtered.
        current: the current clusters, of which `view` may show another level.
    """
    with st.container(key="filter-bar"):  # explore.css: the widths of the controls
        form, columns, level, text, image, chips = st.columns(6, vertical_alignment="center", gap="xsmall")
    with columns:
        _show_columns_button()
    with level:
        show_level_button(current)
    with form.popover("Filters", icon=":material/filter_alt:", width="stretch", key="explore-filters"):
        _show_form(view, get_explore_state().filters)
    with text:
        show_text_search(view)
    with image:
        show_image_search(view)
    with chips:
        show_filter_chips(_list_chips(view), key="filter-chips", removed=_remove_filters)
    show_level_row(current)


def get_listing(view: ClusterView) -> SelectedImages | None:
    """Return the images that the gallery lists instead of all; `None` once all of them were excluded."""
    listing = get_explore_state().selection
    return listing if listing is not None and len(view.find_rows(listing.ids)) else None


def _list_chips(view: ClusterView) -> list[ActiveFilter]:
    chips = describe_filters(view, get_explore_state().filters)
    listing = get_listing(view)
    if listing is not None:
        count = f"{format_count(len(view.find_rows(listing.ids)), 'image')} "
        # The title of a search by image ends with its cluster, for which the number leaves no room.
        chips.append(ActiveFilter(_SELECTION, f"{'' if listing.placed else count}{listing.title}"))
    if view.shown_level is not None:
        chips.append(ActiveFilter(_LEVEL, f"preview of {format_count(view.shown_level, 'cluster')}"))
    return chips


def _remove_filters(names: list[str]) -> None:
    state = get_explore_state()
    for name in names:
        if name == _LEVEL:
            set_level(None)
        elif name != _SELECTION:
            set_filters(state.filters.remove(name))
        elif state.selection is not None:
            select_images(state.selection.ids[:0], "")


def _show_columns_button() -> None:
    set_widget_value(_COLUMNS, [_COLUMNS_TITLE] if get_explore_state().shows_columns else [])
    st.segmented_control(
        _COLUMNS_TITLE,
        [_COLUMNS_TITLE],
        selection_mode="multi",
        key=_COLUMNS,
        format_func=lambda title: f":material/bar_chart: {title}",
        on_change=lambda: show_columns(bool(get_widget_value(_COLUMNS))),
        label_visibility="collapsed",
        width="stretch",
        help="Shows histograms beside the map: date, camera, size, quality and the columns of an imported list. Drag "
        "over a histogram or click a value to filter.",
    )


def _show_form(view: ClusterView, filters: ImageFilters) -> None:
    st.text_input(
        "File name",
        placeholder="Part of a file name",
        help="Shows images whose path contains this text.",
        **_control("explore-search", "text", filters.text, str.strip),
    )
    st.multiselect(
        "Clusters",
        list_filter_clusters(view),
        format_func=view.format_cluster,
        placeholder="Any cluster",
        **_control("explore-clusters", "clusters", list(filters.clusters), tuple),
    )
    labels = list_filter_labels(view)
    if labels:
        st.multiselect(
            "Labels",
            labels,
            format_func=lambda name: "not labelled" if name == NO_LABEL else to_printable(name),
            placeholder="Any label",
            **_control("explore-labels", "labels", list(filters.labels), tuple),
        )
    if view.classes is not None:
        _show_class_filters(view.classes[0], filters)
    if view.confidence is not None:
        st.slider(
            "Confidence (%)",
            0,
            100,
            step=_PERCENT_STEP,
            help="Shows images whose cluster has a probability in this range.",
            **_control("explore-confidence", "confidence", filters.confidence, tuple),
        )
    boxes = st.container(horizontal=True)
    boxes.checkbox(
        "Exact duplicates",
        help="Shows images that have an identical copy in the dataset.",
        **_control("explore-duplicates", "duplicates", filters.duplicates, bool),
    )
    boxes.checkbox(
        "Excluded images",
        help="Lists the images that you excluded. They are not on the map.",
        **_control("explore-excluded", "excluded", filters.excluded, bool),
    )


def _show_class_filters(names: tuple[str, ...], filters: ImageFilters) -> None:
    st.selectbox(
        "Class",
        [_ANY_CLASS, *names],
        format_func=lambda name: "Any class" if name == _ANY_CLASS else to_printable(name),
        **_control("explore-class", "class_name", filters.class_name or _ANY_CLASS, lambda name: name or None),
    )
    st.segmented_control(
        "Comparison with ground truth",
        OUTCOMES,
        format_func=str.capitalize,
        required=True,
        wrap=True,
        help="Filters by the match of classes and clusters. Correct: in the cluster of its class. False negative: in "
        "another cluster. False positive: in the cluster of the class, but of another class.",
        **_control("explore-outcome", "outcome", filters.outcome, lambda outcome: outcome or ANY_OUTCOME),
    )


def _control(title: str, name: str, value: Any, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the arguments of a widget that shows one filter and changes it; the session state of the view leads.

    Args:
        title: key of the widget.
        name: name of the field in `ImageFilters`.
        value: value that the widget shows.
        convert: returns the value of the field for a value of the widget.
    """
    form = get_explore_state().filter_form
    key = f"{title}-{form}" if form else title
    set_widget_value(key, value)

    def change() -> None:
        changed = get_explore_state().filters.replace(**{name: convert(get_widget_value(key))})
        set_filters(changed, are_from_form=True)

    return {"key": key, "on_change": change}
