"""Explore page: the map with a gallery beside it, which share one selection of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.clusters.level_slider import open_shown_level
from app.components.common.current_view import show_current_view
from app.components.common.polling import ensure_quality
from app.components.common.safe_text import show_error
from app.components.explore import filter_bar
from app.components.explore.column_panel import show_column_panel
from app.components.explore.image_dialog import show_image_dialog
from app.components.explore.image_search import list_found_images
from app.components.explore.map_panel import show_map_panel
from app.components.explore.selection_bar import show_selection_bar
from app.components.gallery.image_grid import Tile
from app.components.gallery.tiles import build_excluded_tiles, show_paged_gallery, show_paged_tiles
from app.state.exploring import get_explore_state, get_picks_among, set_filters, set_page
from app.state.location import sync_url_parameter
from app.state.widgets import restore_widget_value
from app.view_models.cluster_view import MOST_TYPICAL, OUTLIERS, ClusterView
from app.view_models.colouring import (
    COLUMN_PREFIX,
    Colouring,
    compute_colouring,
    has_column_colourings,
    list_colourings,
    list_column_colourings,
)
from app.view_models.image_filters import (
    compute_mask,
    decode_filters,
    encode_filters,
    find_excluded_ids,
    limit_filters,
)
from app.view_models.image_selection import Mask
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import CrlcError
from crlc.paths import to_printable
from crlc.workspace import Workspace

_STYLE = Path(filter_bar.__file__).with_name("explore.css")
_COLOUR_BY = (
    "<span class='colour-by' aria-hidden='true' style='font-size:.9rem;opacity:.75;white-space:nowrap'>Colour by</span>"
)
_NEEDS_QUALITY = (MOST_TYPICAL, OUTLIERS)
_COLUMN = "column"
"""Choice of a colouring by a column of the dataset, which is chosen next to it."""


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


def _show(current: ClusterView) -> None:
    st.html(_STYLE)
    view = open_shown_level(current)
    state = get_explore_state()
    encoded = encode_filters(state.filters)
    if (in_url := sync_url_parameter("filters", encoded)) != encoded:
        set_filters(decode_filters(in_url))
    state.filters = limit_filters(view, state.filters)
    list_found_images()
    method, by, order = _show_controls(view)
    if by == "agreement" or order in _NEEDS_QUALITY:
        ensure_quality(view)
    colours = compute_colouring(view, by)
    shown = compute_mask(view, state.filters)
    hidden = np.isin(colours.values, state.hidden_values.get(by, []))
    visible = shown & ~hidden
    picked = view.find_rows(np.array(get_picks_among(view.ids[visible]), np.int64))
    bar = st.container()  # its chips are known after the map, whose gestures select images
    with st.container(key="explore-stage"):
        # The map keeps its place, and so its zoom, when the columns appear; explore.css has the widths.
        column_side, map_side, gallery_side = st.columns(3, gap="small")
        if state.shows_columns:
            with column_side.container(key="column-side"):
                show_column_panel(view, _select_listed(view) & ~hidden)
        with map_side:
            drawn = show_map_panel(view, method, (by, colours), shown=shown, visible=visible, picked=picked)
        with gallery_side.container(key="gallery-side"):
            if state.filters.excluded:
                listed = _show_excluded(view)
                picks = np.array(get_picks_among(listed), np.int64)
            else:
                listed, picks = _show_gallery(view, visible, order, colours), view.ids[picked]
    with bar:
        filter_bar.show_filter_bar(view, current)
    show_selection_bar(view, listed, picks, are_excluded=state.filters.excluded)
    show_image_dialog(view, drawn)


def _select_listed(view: ClusterView) -> Mask:
    """Return the mask of the images that the gallery lists because of a lasso or a search; else of all images."""
    listing = filter_bar.get_listing(view)
    mask = np.full(len(view.ids), listing is None)
    if listing is not None:
        mask[view.find_rows(listing.ids)] = True
    return mask


def _show_controls(view: ClusterView) -> tuple[str, str, str]:
    """Show the controls; return the map method, the colouring, and the order of the gallery."""
    methods, possible, orders = list(MAP_METHODS), list(list_colourings(view)), view.list_orders()
    restore_widget_value("explore-method", "umap", methods)
    if has_column_colourings(view):
        possible.append(_COLUMN)
    restore_widget_value("explore-by", "cluster", possible)
    restore_widget_value("explore-order", orders[0], orders)
    listing = filter_bar.get_listing(view)
    with st.container(horizontal=True, vertical_alignment="center", key="explore-controls", gap="small"):
        method = st.segmented_control(
            "Map",
            methods,
            key="explore-method",
            format_func=MAP_METHODS.__getitem__,
            required=True,
            label_visibility="collapsed",
            help="Sets the projection to two dimensions. UMAP and t-SNE keep neighbours together; PCA keeps the "
            "large-scale structure and is the fastest.",
        )
        st.html(_COLOUR_BY, width="content")
        by = st.segmented_control(
            "Colour by",
            possible,
            key="explore-by",
            required=True,
            label_visibility="collapsed",
            format_func=lambda name: "Neighbour agreement" if name == "agreement" else name.capitalize(),
            help="Sets what the colours show: cluster, label, ground-truth class, confidence of the model (0 to 100%), "
            "neighbour agreement (fraction of an image's neighbours in the same cluster, 0 to 100%), or a column such "
            "as the date.",
        )
        if by == _COLUMN:
            columns = {info.name: info for info in list_column_colourings(view)}
            restore_widget_value("explore-by-column", next(iter(columns)), list(columns))
            chosen = st.selectbox(
                "Column",
                list(columns),
                key="explore-by-column",
                format_func=lambda name: to_printable(columns[name].title),
                label_visibility="collapsed",
                width=140,
            )
            by = f"{COLUMN_PREFIX}{chosen}"
        st.space("stretch")
        order = st.selectbox(
            "Order",
            orders,
            key="explore-order",
            label_visibility="collapsed",
            on_change=set_page,
            args=("explore", 0),
            format_func=str.capitalize,
            width=155,
            disabled=listing is not None and listing.is_ordered,
            help="Sets the order of the images. Typical images are in the dense middle of their cluster; outliers are "
            "far from all other images.",
        )
    return method or "umap", by or "cluster", order or orders[0]


def _show_gallery(view: ClusterView, visible: Mask, order: str, colours: Colouring) -> NDArray[np.int64]:
    """Show the images that match the filters, or those of the selection; return their ids in order."""
    choice = filter_bar.get_listing(view)
    rows = np.flatnonzero(visible)
    if choice is not None:
        selected = view.find_rows(choice.ids)
        rows = selected[visible[selected]]
    if choice is None or not choice.is_ordered:
        rows = view.sort_rows(rows, order)
    found = None if choice is None else choice.found
    caption = None if found is None else lambda row: found.format_caption(int(view.ids[row]))
    show_paged_gallery(
        view, rows, name="explore", columns=None, picking=True, caption=caption, colour=colours.get_colour
    )
    return view.ids[rows]


def _show_excluded(view: ClusterView) -> NDArray[np.int64]:
    """Show the excluded images, which are not on the map; return their ids."""
    ids = find_excluded_ids(view, get_explore_state().filters)

    def build(part: slice) -> list[Tile]:
        return build_excluded_tiles(view, ids[part])

    show_paged_tiles(view, len(ids), build, name="explore", columns=None, picking=True, opening=False)
    return ids
