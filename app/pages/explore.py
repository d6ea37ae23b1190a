"""Explore page: the map with a gallery beside it, which share one selection of images."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.background.tasks import get_task, start_task
from app.components.clusters.editing import move_images, show_history
from app.components.common.current_view import show_current_view
from app.components.common.polling import ensure_quality, show_task
from app.components.common.safe_text import show_caption, show_error
from app.components.gallery.image_dialog import show_image_dialog
from app.components.gallery.tiles import show_paged_gallery
from app.components.labelling.bulk_label import show_label_popover
from app.components.map.scatter_map import Focus, Highlight, MapEvents, show_scatter_map
from app.state.exploring import clear_selection, get_explore_state, open_image, select_images, set_page
from app.state.widgets import get_widget_value, restore_widget_value
from app.view_models.cluster_view import MOST_TYPICAL, OUTLIERS, ClusterView, RunView
from app.view_models.colouring import Colouring, compute_colouring, list_colourings
from app.view_models.image_selection import OUTCOMES, select_inside_polygon, select_outcome
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import search_paths
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.workspace import Workspace

_MAX_AUTOMATIC_IMAGES = 20_000
"""Up to this number of images, a map is computed automatically: it takes at most a minute."""

_GALLERY_HEIGHT_PIXELS = 500
"""The images scroll within this height, so that the map beside them stays visible."""

_ANY_CLASS = -1
_NEEDS_QUALITY = (MOST_TYPICAL, OUTLIERS)
Mask = NDArray[np.bool_]


def render() -> None:
    """Show the page."""
    view = show_current_view(Workspace(), "explore")
    if view is None:
        return
    get_explore_state(view.kind, view.name)
    try:
        _show(view)
    except CrlcError as error:
        show_error(str(error))


def _show(view: ClusterView) -> None:
    method, by, shown = _show_controls(view)
    if by == "agreement" or get_widget_value("explore-order") in _NEEDS_QUALITY:
        ensure_quality(view)
    colours = compute_colouring(view, by)
    hidden = get_explore_state().hidden_values.get(by, [])
    visible = shown & ~np.isin(colours.values, hidden)
    map_side, gallery_side = st.columns([3, 2], gap="medium")
    with map_side:
        drawn = _show_map(view, method, (by, colours), shown, visible)
    with gallery_side:
        _show_gallery(view, visible)
    show_image_dialog(view, drawn)


# ---- controls and filters


def _show_controls(view: ClusterView) -> tuple[str, str, Mask]:
    """Show the controls; return the map method, the colouring, and the mask of the filters."""
    methods, possible = list(MAP_METHODS), list(list_colourings(view))
    restore_widget_value("explore-method", "umap", methods)
    restore_widget_value("explore-by", "cluster", possible)
    one, two, three = st.columns([2.2, 4, 1.8], vertical_alignment="bottom")
    method = one.segmented_control(
        "Map",
        methods,
        key="explore-method",
        format_func=MAP_METHODS.__getitem__,
        required=True,
        help="Sets the projection to two dimensions. UMAP and t-SNE keep neighbours together; PCA keeps the "
        "large-scale structure and is the fastest.",
    )
    by = two.segmented_control(
        "Colour by",
        possible,
        key="explore-by",
        required=True,
        format_func=lambda name: "Neighbour agreement" if name == "agreement" else name.capitalize(),
        help="Sets what the colours show: cluster, label, ground-truth class, confidence of the model (0 to 100%), or "
        "neighbour agreement (fraction of an image's neighbours in the same cluster, 0 to 100%).",
    )
    with three.popover("Filters", icon=":material/filter_alt:", width="stretch"):
        mask = _show_filters(view)
    return method or "umap", by or "cluster", mask


def _show_filters(view: ClusterView) -> Mask:
    mask = np.ones(len(view.ids), np.bool_)
    text = st.text_input(
        "File name",
        key="explore-search",
        placeholder="Part of a file name",
        help="Shows images whose path contains this text.",
    ).strip()
    if text:
        mask &= np.isin(view.ids, _find_images(view.dataset, view.dataset.version, text))
    if view.classes is None or view.matched_clusters is None:
        return mask
    names, numbers = view.classes
    restore_widget_value("explore-outcome", "all", OUTCOMES)
    outcome = st.segmented_control(
        "Comparison with ground truth",
        OUTCOMES,
        key="explore-outcome",
        format_func=str.capitalize,
        required=True,
        help="Filters by the match of classes and clusters. Correct: in the cluster of its class. False negative: in "
        "another cluster. False positive: in the cluster of the class, but of another class.",
    )
    classes = [_ANY_CLASS, *range(len(names))]
    restore_widget_value("explore-class", _ANY_CLASS, classes)
    of = st.selectbox(
        "Class",
        classes,
        key="explore-class",
        format_func=lambda number: "Any class" if number == _ANY_CLASS else to_printable(names[number]),
        help="Limits the comparison to one class.",
    )
    return mask & select_outcome(
        outcome or "all", numbers, view.clusters, view.matched_clusters, None if of == _ANY_CLASS else of
    )


@lru_cache(maxsize=8)
def _find_images(dataset: ImageDataset, _: int, text: str) -> NDArray[np.int64]:
    return search_paths(dataset, text)


# ---- map


def _show_map(view: ClusterView, method: str, by: tuple[str, Colouring], shown: Mask, visible: Mask) -> str | None:
    """Show the map, or another one until it is computed; return the method of the map shown."""
    # Progress is below the map, so that the map does not move when the progress disappears.
    above, below = st.container(), st.container()
    with below:
        drawn = _choose_available_map(view, method)
    if drawn is None:
        return None
    state = get_explore_state()
    rows = None if state.selection is None else view.find_rows(np.sort(state.selection.ids))
    chosen = None
    if rows is not None:
        chosen = np.zeros(len(view.ids), np.bool_)
        chosen[rows] = True
    focus = None
    if state.focus is not None and len(row := view.find_rows(np.array([state.focus]))):
        focus = Focus(int(row[0]), state.pan_to_focus, state.focus_count)
    events = MapEvents(
        region=partial(select_region, view, drawn, visible),
        clicked=open_image,
        hidden=partial(_set_hidden, by[0]),
        cleared=clear_selection,
    )
    with above:
        show_scatter_map(
            view,
            drawn,
            by,
            key="explore-map",
            events=events,
            marked=Highlight(None if shown.all() else shown, chosen, state.hidden_values.get(by[0], []), focus),
        )
    show_caption(
        "Drag to move, scroll to zoom, click to open an image. Select images with a lasso (Shift + drag) or a box "
        "(Alt + drag)."
    )
    return drawn


def _choose_available_map(view: ClusterView, method: str) -> str | None:
    """Return the method of the map that can be shown now: the requested one, or PCA until that is computed."""
    if view.is_growing:
        if method != "pca":
            show_caption(
                f"Showing the PCA map until the features of all images are computed; {MAP_METHODS[method]} follows."
            )
        return "pca"
    if view.load_coordinates(method) is not None:
        return method
    key = f"map-{view.kind}-{view.name}-{view.layout_version}-{method}"
    title = f"{MAP_METHODS[method]} map"

    def start() -> None:
        start_task(key, title, partial(view.compute_map, method))

    known = get_task(key)
    if known is None and (method == "pca" or len(view.ids) <= _MAX_AUTOMATIC_IMAGES):
        start()
    if show_task(key) is None:
        if view.load_coordinates(method) is not None:
            return method
        st.button(
            f"Compute {title} of {format_count(len(view.ids), 'image')}",
            key="compute-map",
            on_click=start,
            type="primary",
        )
    if method == "pca":
        return None
    if view.load_coordinates("pca") is None:
        pca_key = f"map-{view.kind}-{view.name}-{view.layout_version}-pca"
        with st.spinner("Computing the PCA map"):
            start_task(pca_key, "PCA map", partial(view.compute_map, "pca")).wait()
    if view.load_coordinates("pca") is None:
        return None
    show_caption(f"Showing the PCA map until the {title} is computed.")
    return "pca"


def select_region(view: ClusterView, method: str, visible: Mask, corners: list[list[float]], more: bool) -> None:
    """Select the visible images inside a polygon on the map, or add them to the selection."""
    coordinates = view.load_coordinates(method)
    if coordinates is None:
        return
    ids = view.ids[select_inside_polygon(coordinates, corners) & visible]
    before = get_explore_state().selection
    if more and before is not None:
        ids = np.union1d(before.ids, ids)
    select_images(ids, "selected")


def _set_hidden(by: str, values: list[int]) -> None:
    get_explore_state().hidden_values[by] = values
    get_explore_state().gallery_pages.clear()


# ---- gallery


def _show_gallery(view: ClusterView, visible: Mask) -> None:
    choice = get_explore_state().selection
    rows = np.flatnonzero(visible)
    if choice is not None:
        selected = view.find_rows(choice.ids)
        rows = selected[visible[selected]]
    heading, button = st.columns([3, 1], vertical_alignment="center")
    with heading:
        of_all = f" of {len(view.ids):,}" if len(rows) < len(view.ids) else ""
        show_caption(
            f"{len(rows):,}{of_all} {'image' if len(view.ids) == 1 else 'images'}"
            + ("" if choice is None else f" {choice.title}")
        )
    if choice is not None:
        with st.container(horizontal=True):
            show_label_popover(view, view.ids[rows], choice.title, key="explore-label")
            if isinstance(view, RunView):
                _show_move_popover(view, view.ids[rows])
        button.button(
            "Clear selection",
            key="clear-selection",
            on_click=clear_selection,
            width="stretch",
            help="Clears the selection (Esc on the map).",
        )
    if choice is None or not choice.is_ordered:
        orders = view.list_orders()
        restore_widget_value("explore-order", orders[0], orders)
        order = st.segmented_control(
            "Order",
            orders,
            key="explore-order",
            required=True,
            label_visibility="collapsed",
            on_change=set_page,
            args=("explore", 0),
            format_func=str.capitalize,
            wrap=True,
            help="Sets the order of the images. Typical images are in the dense middle of their cluster; outliers are "
            "far from all other images.",
        )
        rows = view.sort_rows(rows, order or orders[0])
    show_paged_gallery(view, rows, name="explore", columns=4, height=_GALLERY_HEIGHT_PIXELS)


def _show_move_popover(view: RunView, ids: NDArray[np.int64]) -> None:
    """Show a popover that moves the selected images to a cluster."""
    with st.popover(
        "Move to cluster",
        key="move-selection",
        icon=":material/move_item:",
        disabled=not len(ids),
        help="Moves the selected images to another cluster.",
    ):
        target = st.selectbox("Cluster", view.cluster_numbers, format_func=view.format_cluster, key="explore-target")
        st.button(
            f"Move {format_count(len(ids), 'image')}",
            key="move-images",
            type="primary",
            on_click=move_images,
            args=(view, ids.tolist(), target),
        )
        show_history(view)
