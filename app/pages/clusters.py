"""Clusters page: a card for each cluster, its images, and edits that can be undone."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from app.components.clusters.cards import list_cluster_facts, show_cards
from app.components.clusters.editing import merge_clusters, move_images, rename_cluster, show_history
from app.components.clusters.level_slider import open_shown_level, show_level_button, show_level_row
from app.components.clusters.own_words import show_own_words
from app.components.clusters.splitting import show_split_form, show_split_parts, show_split_preview
from app.components.clusters.suggestions import show_suggestions
from app.components.common.current_view import show_current_view
from app.components.common.metadata_line import Fact, show_facts
from app.components.common.polling import ensure_quality
from app.components.common.safe_text import show_caption, show_error
from app.components.explore.image_dialog import show_image_dialog
from app.components.gallery.tiles import show_paged_gallery
from app.components.labelling.bulk_label import show_label_popover
from app.figures.heatmaps import plot_confusion
from app.navigation import go_to
from app.state.clusters import get_clusters_state, set_previewing, show_parts
from app.state.exploring import ExploreState, get_explore_state, get_picks_among, open_cluster, set_page
from app.state.location import sync_url_parameter
from app.state.widgets import get_widget_value, restore_widget_value, set_widget_value
from app.view_models.cluster_view import ClusterView, RunView
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.workspace import Workspace

_MIN_MERGED = 2
_SORTS = ("number", "size", "least confident", "most overlap")


def render() -> None:
    """Show the page."""
    current = show_current_view(Workspace(), "clusters")
    if current is None:
        return
    state = get_explore_state(current.kind, current.name)
    try:
        view = open_shown_level(current)
        waiting = st.empty()  # always created, so that the cards below keep their state
        with waiting.container():
            ensure_quality(view)
        waiting.empty()
        if isinstance(view, RunView) and view.shown_level is None:
            _show_clusters(view, state)
        else:
            if isinstance(view, RunView):
                show_history(view)
            with st.container(horizontal=True, vertical_alignment="center"):
                numbers = _list_clusters(view)
                if view.shown_level is not None:
                    show_caption(f"Preview of {format_count(view.shown_level, 'cluster')}: nothing is saved.")
                st.space("stretch")
                with st.container(width=200):
                    show_level_button(current)
            show_level_row(current)
            show_cards(view, numbers)
        drawn = next((method for method in MAP_METHODS if view.load_coordinates(method) is not None), None)
        show_image_dialog(view, drawn, _open_map)
    except CrlcError as error:
        show_error(str(error))


def _open_map() -> None:
    go_to("explore")


def _show_clusters(view: RunView, state: ExploreState) -> None:
    """Show the open cluster, the parts of the last split, or all clusters."""
    parts = get_clusters_state(view.name).parts
    if parts and not set(parts) <= set(view.cluster_numbers):  # the split was undone
        show_parts(())
        state.cluster, parts = parts[0], ()
    shown = None if state.cluster is None else str(state.cluster)
    if (in_url := sync_url_parameter("cluster", shown)) != shown:  # Back, or a link
        open_cluster(int(in_url) if in_url is not None and in_url.isdecimal() else None)
    state.cluster = state.cluster if state.cluster in view.cluster_numbers else None
    if state.cluster is None and not parts:
        _show_all_clusters(view)
        return
    show_history(view)
    if state.cluster is not None:
        _show_cluster(view, state.cluster)
    else:
        show_split_parts(view, parts)


# ---- all clusters


def _show_all_clusters(view: RunView) -> None:
    with st.container(key="history-beside-tabs"):  # page.css: it takes no row of its own
        show_history(view)
    titles = ["Clusters", "Suggestions", *(["Accuracy against ground truth"] if view.classes is not None else [])]
    # Only the open tab is computed: suggestions have many images.
    cards, suggestions, *more = st.tabs(titles, key="clusters-tab", on_change="rerun")
    if cards.open:
        _show_all_cards(view, cards)
    if suggestions.open:
        with suggestions:
            show_suggestions(view)
    for tab in more:
        if tab.open:
            with tab:
                _show_class_metrics(view)


def _show_all_cards(view: RunView, tab: DeltaGenerator) -> None:
    with tab:
        sorting, level, naming, merging = st.columns([2.35, 1.2, 0.9, 1], vertical_alignment="center")
        with sorting:
            numbers = _list_clusters(view)
        with level:
            show_level_button(view)
        with naming:
            show_own_words(view)
        with merging:
            _show_merge_button(view)
        show_level_row(view)
        show_cards(view, numbers)


def _list_clusters(view: ClusterView) -> list[int]:
    """Return the clusters in the selected order, empty ones last."""
    sizes = np.bincount(view.clusters)
    found = np.flatnonzero(sizes).tolist()
    if not isinstance(view, RunView):
        return found
    restore_widget_value("clusters-sort", _SORTS[0], _SORTS)
    sort = st.segmented_control(
        "Order",
        _SORTS,
        key="clusters-sort",
        required=True,
        label_visibility="collapsed",
        format_func=str.capitalize,
        help="Sets the order: by number, number of images, mean confidence, or overlap with another cluster.",
    )
    quality = view.compute_quality().clusters
    keys: dict[str, NDArray[np.float64]] = {
        "size": -quality.size.astype(np.float64),
        "least confident": quality.confidence,
        "most overlap": -np.nan_to_num(quality.closest_mixing),
    }
    if sort in keys:
        found.sort(key=lambda number: keys[sort][number])
    return found + [number for number in view.cluster_numbers if number >= len(sizes) or not sizes[number]]


def _show_merge_button(view: RunView) -> None:
    """Show the button that merges the selected clusters; always visible, so that nothing moves."""
    selected = [number for number in view.cluster_numbers if number in get_explore_state().clusters_to_merge]
    can_merge = len(selected) >= _MIN_MERGED
    st.button(
        f"Merge {len(selected)} clusters" if can_merge else "Merge selected",
        type="primary" if can_merge else "secondary",
        disabled=not can_merge,
        on_click=merge_clusters,
        args=(view, selected),
        width="stretch",
        key="merge-ticked",
        help=", ".join(map(view.format_cluster, selected)) if can_merge else "Select two or more clusters below.",
    )


def _show_name_field(view: RunView, number: int) -> None:
    key = f"name-{view.name}-{number}"
    set_widget_value(key, view.cluster_names.get(number, ""))
    st.text_input(
        "Name",
        key=key,
        placeholder="Name this cluster",
        on_change=lambda: rename_cluster(view, number, get_widget_value(key)),
    )


# ---- one cluster


def _close_cluster() -> None:
    set_previewing(False)
    open_cluster(None)


def _show_cluster(view: RunView, number: int) -> None:
    back, title = st.columns([1, 6], vertical_alignment="center")
    back.button("All clusters", key="all-clusters", icon=":material/arrow_back:", on_click=_close_cluster)
    with title:
        show_facts(list_cluster_facts(view, number), view.format_cluster(number), view.get_colour(number))
    rows = np.flatnonzero(view.clusters == number)
    with st.container(border=True):
        naming, merging, splitting = st.columns([1.7, 3, 3], vertical_alignment="bottom")
        with naming:
            _show_name_field(view, number)
        with merging:
            _show_merge_form(view, number)
        with splitting:
            parts = show_split_form(view, len(rows))
    if get_clusters_state(view.name).is_previewing:
        show_split_preview(view, number, parts)
    orders = view.list_orders()
    restore_widget_value("cluster-order", orders[0], orders)
    with st.container(horizontal=True, vertical_alignment="center"):
        order = st.segmented_control(
            "Order",
            orders,
            key="cluster-order",
            format_func=str.capitalize,
            required=True,
            label_visibility="collapsed",
            on_change=set_page,
            args=("cluster", 0),
        )
        _show_selection_tools(view, number)
    if not len(rows):
        st.info("This cluster has no images.")
        return
    show_paged_gallery(view, view.sort_rows(rows, order or orders[0]), name="cluster", columns=10, picking=True)


def _list_other_clusters(view: RunView, number: int) -> list[int]:
    return [other for other in view.cluster_numbers if other != number]


def _show_merge_form(view: RunView, number: int) -> None:
    others = _list_other_clusters(view, number)
    if not others:
        return
    closest = (
        int(view.compute_quality().clusters.closest[number])
        if number < len(view.compute_quality().clusters.closest)
        else -1
    )
    one, two = st.columns([1.2, 1], vertical_alignment="bottom")
    other = one.selectbox(
        "Merge with",
        others,
        index=others.index(closest) if closest in others else 0,
        format_func=view.format_cluster,
        help="Merges the two clusters under the smaller number and its name.",
        key="merge-with",
    )
    two.button(
        "Merge clusters", key="merge-two", on_click=merge_clusters, args=(view, [number, other]), width="stretch"
    )


def _show_selection_tools(view: RunView, number: int) -> None:
    """Show the actions for the selected images; always visible, so that images do not move while selecting."""
    picks, others = get_picks_among(view.ids[view.clusters == number]), _list_other_clusters(view, number)
    target = st.selectbox(
        "Target cluster",
        others,
        index=None,
        placeholder="Move to",
        format_func=view.format_cluster,
        width=150,
        key="move-target",
        label_visibility="collapsed",
        disabled=not others,
    )
    st.button(
        f"Move {len(picks):,} selected",
        key="move-picked",
        type="primary" if picks and target is not None else "secondary",
        on_click=move_images,
        args=(view, picks, target),
        disabled=not picks or target is None,
        help="Moves the selected images. Select images with the checkbox in their corner, or with Ctrl + click; "
        "Shift + click selects a range.",
    )
    show_label_popover(view, picks, f"selected in {view.format_cluster(number)}", key="cluster-label")


# ---- classes


def _show_class_metrics(view: RunView) -> None:
    report = view.analysis.compute_class_report()
    if report is None or view.classes is None:
        st.info("These images have no ground-truth classes.")
        return
    measured = report.agreement
    show_facts(
        [
            Fact(f"{format_count(report.images, 'image')} with a class", "Only these images are compared."),
            Fact(f"ACC {measured.acc:.1%}", "Fraction of images in the cluster matched to their class."),
            Fact(f"NMI {measured.nmi:.3f}", "Normalised mutual information of clusters and classes, from 0 to 1."),
            Fact(
                f"ARI {measured.ari:.3f}",
                "Adjusted Rand index: 1 if clusters and classes are identical, about 0 if random.",
            ),
        ]
    )
    figure = plot_confusion(report, view.classes[0], view.format_cluster, dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, key="confusion", config={"displayModeBar": False})
