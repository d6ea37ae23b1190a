"""Clusters page: a card for each cluster, its images, and edits that can be undone."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.clusters.editing import merge_clusters, move_images, rename_cluster, show_history, split_cluster
from app.components.clusters.suggestions import show_suggestions
from app.components.common.current_view import show_current_view
from app.components.common.metadata_line import Fact, show_facts
from app.components.common.polling import ensure_quality
from app.components.common.safe_text import show_error
from app.components.gallery.image_dialog import show_image_dialog
from app.components.gallery.tiles import format_thumbnails, show_paged_gallery
from app.components.labelling.bulk_label import show_label_popover
from app.figures.heatmaps import plot_confusion
from app.navigation import go_to
from app.state.exploring import get_explore_state, open_cluster, set_page, toggle_cluster_to_merge
from app.state.widgets import get_widget_value, restore_widget_value, set_widget_value
from app.view_models.cluster_view import MOST_TYPICAL, ClusterView, RunView
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.workspace import Workspace

_CARDS_PER_PAGE = 12
_CARD_COLUMNS = 3
_TYPICAL_IMAGES = 6
_MAX_PARTS = 8
_MIN_MERGED = 2
_SORTS = ("number", "size", "least confident", "most overlap")


def render() -> None:
    """Show the page."""
    view = show_current_view(Workspace(), "clusters")
    if view is None:
        return
    state = get_explore_state(view.kind, view.name)
    try:
        ensure_quality(view)
        if isinstance(view, RunView):
            show_history(view)
            state.cluster = state.cluster if state.cluster in view.cluster_numbers else None
            if state.cluster is not None:
                _show_cluster(view, state.cluster)
            else:
                _show_all_clusters(view)
        else:
            _show_cards(view, _list_clusters(view))
        drawn = next((method for method in MAP_METHODS if view.load_coordinates(method) is not None), None)
        show_image_dialog(view, drawn, _open_map)
    except CrlcError as error:
        show_error(str(error))


def _open_map() -> None:
    go_to("explore")


# ---- all clusters


def _show_all_clusters(view: RunView) -> None:
    cards, suggestions, *more = st.tabs(
        ["Clusters", "Suggestions", *(["Accuracy against ground truth"] if view.classes is not None else [])]
    )
    with cards:
        sorting, merging = st.columns([3, 1], vertical_alignment="center")
        with sorting:
            numbers = _list_clusters(view)
        with merging:
            _show_merge_button(view)
        _show_cards(view, numbers)
    with suggestions:
        show_suggestions(view)
    for tab in more:
        with tab:
            _show_class_metrics(view)


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


def _show_cards(view: ClusterView, numbers: list[int]) -> None:
    pages = -(-len(numbers) // _CARDS_PER_PAGE)
    page = min(get_explore_state().gallery_pages.get("cards", 0), max(0, pages - 1))
    part = numbers[page * _CARDS_PER_PAGE : (page + 1) * _CARDS_PER_PAGE]
    for start in range(0, len(part), _CARD_COLUMNS):
        for column, number in zip(st.columns(_CARD_COLUMNS), part[start : start + _CARD_COLUMNS], strict=False):
            with column.container(border=True, key=f"card-{number}"):
                _show_card(view, number)
    if pages > 1:
        back, _, on = st.columns([1, 4, 1])
        back.button(
            "Previous",
            key="previous-cards",
            disabled=page == 0,
            on_click=set_page,
            args=("cards", page - 1),
            width="stretch",
        )
        on.button(
            "Next",
            key="next-cards",
            disabled=page == pages - 1,
            on_click=set_page,
            args=("cards", page + 1),
            width="stretch",
        )


def _show_card(view: ClusterView, number: int) -> None:
    rows = np.flatnonzero(view.clusters == number)
    show_facts(list_cluster_facts(view, number), view.format_cluster(number), view.get_colour(number))
    st.html(format_thumbnails(view, view.sort_rows(rows, MOST_TYPICAL)[:_TYPICAL_IMAGES], columns=_CARD_COLUMNS))
    if not isinstance(view, RunView):
        return
    _show_name_field(view, number)
    tick, button = st.columns(2)
    # A button: the browser loads checkboxes late, and shows a grey box until then.
    is_ticked = number in get_explore_state().clusters_to_merge
    tick.button(
        "Select",
        key=f"tick-{number}",
        icon=f":material/{'check_box' if is_ticked else 'check_box_outline_blank'}:",
        on_click=toggle_cluster_to_merge,
        args=(number,),
        width="stretch",
        help="Selects the cluster. Merge the selected clusters with the button above.",
    )
    button.button("Open cluster", key=f"open-{number}", on_click=open_cluster, args=(number,), width="stretch")


def _show_name_field(view: RunView, number: int, label: str | None = None) -> None:
    key = f"name-{view.name}-{number}"
    set_widget_value(key, view.cluster_names.get(number, ""))
    st.text_input(
        label or f"Name of cluster {number}",
        key=key,
        placeholder="Name this cluster",
        label_visibility="visible" if label else "collapsed",
        on_change=lambda: rename_cluster(view, number, get_widget_value(key)),
    )


def list_cluster_facts(view: ClusterView, number: int) -> list[Fact]:
    """Return the metadata of a cluster for one line."""
    size = int((view.clusters == number).sum())
    facts = [Fact(format_count(size, "image"), "Images in the cluster.")]
    if not isinstance(view, RunView) or not size:
        return facts
    quality = view.compute_quality().clusters
    facts += [
        Fact(
            f"{quality.confidence[number]:.0%} confidence",
            "Mean probability that the model gives this cluster for its images.",
        ),
        Fact(
            f"{quality.neighbour_agreement[number]:.0%} neighbour agreement",
            "Mean fraction of an image's nearest neighbours in the same cluster: an estimate of purity that needs no "
            "ground-truth classes.",
        ),
    ]
    closest = int(quality.closest[number])
    if closest >= 0:
        mixing = f"{quality.closest_mixing[number]:.2f}"
        facts.append(
            Fact(
                f"closest: {view.format_cluster(closest)}",
                f"The cluster with the largest overlap: {mixing}, from 0 (none) to 1 (as one cluster).",
            )
        )
    return facts


# ---- one cluster


def _show_cluster(view: RunView, number: int) -> None:
    back, title = st.columns([1, 6], vertical_alignment="center")
    back.button("All clusters", key="all-clusters", icon=":material/arrow_back:", on_click=open_cluster, args=(None,))
    with title:
        show_facts(list_cluster_facts(view, number), view.format_cluster(number), view.get_colour(number))
    rows = np.flatnonzero(view.clusters == number)
    with st.container(border=True):
        naming, merging, splitting = st.columns(3, vertical_alignment="bottom")
        with naming:
            _show_name_field(view, number, "Name")
        with merging:
            _show_merge_form(view, number)
        with splitting:
            _show_split_form(view, number, len(rows))
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
    one, two = st.columns([2, 1], vertical_alignment="bottom")
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


def _show_split_form(view: RunView, number: int, size: int) -> None:
    one, two = st.columns([2, 1], vertical_alignment="bottom")
    parts = one.number_input(
        "Split into",
        2,
        _MAX_PARTS,
        2,
        key="split-parts",
        help="Splits the cluster by the features of its images. The largest part keeps the number and name.",
    )
    two.button(
        "Split cluster",
        key="split-cluster",
        on_click=split_cluster,
        args=(view, number, int(parts)),
        disabled=size < parts,
        width="stretch",
    )


def _show_selection_tools(view: RunView, number: int) -> None:
    """Show the actions for the selected images; always visible, so that images do not move while selecting."""
    picks, others = get_explore_state().picked_ids, _list_other_clusters(view, number)
    target = st.selectbox(
        "Target cluster",
        others,
        format_func=lambda other: f"to {view.format_cluster(other)}",
        width=180,
        key="move-target",
        label_visibility="collapsed",
        disabled=not others,
    )
    st.button(
        f"Move {len(picks):,} selected",
        key="move-picked",
        type="primary" if picks else "secondary",
        on_click=move_images,
        args=(view, picks, target),
        disabled=not picks or not others,
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
