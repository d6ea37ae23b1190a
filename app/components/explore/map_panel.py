"""Map of the Explore page: the map that can be shown now, progress over it, and gestures that select images."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.background.tasks import get_task, start_task
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption
from app.components.explore.image_search import build_marker, show_image_search_progress
from app.components.map.scatter_map import Focus, Highlight, MapEvents, show_scatter_map
from app.state.exploring import clear_selection, get_explore_state, open_image, select_images, set_hidden_values
from app.view_models.cluster_view import ClusterView
from app.view_models.colouring import Colouring
from app.view_models.image_selection import Mask, select_inside_polygon
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.formatting import format_count

_MAX_AUTOMATIC_IMAGES = 20_000
"""Up to this number of images, a map is computed automatically: it takes at most a minute."""


def show_map_panel(
    view: ClusterView, method: str, by: tuple[str, Colouring], *, shown: Mask, visible: Mask, picked: NDArray[np.int64]
) -> str | None:
    """Show the map, or another one until it is computed.

    Args:
        view: the view whose images are on the map.
        method: method of the requested map.
        by: name of the colouring, and the colouring.
        shown: mask of the images that match the filters.
        visible: mask of the images of `shown` that are not hidden in the legend.
        picked: rows of the selected images.

    Returns:
        the method of the map that is shown; `None` if there is none yet.
    """
    with st.container(key="map-side"):
        above = st.container()
        with st.container(key="map-progress"):
            drawn = _choose_available_map(view, method)
            show_image_search_progress()
        if drawn is not None:
            with above:
                _show_map(view, drawn, by, (shown, visible), picked)
    return drawn


def _show_map(
    view: ClusterView, method: str, by: tuple[str, Colouring], masks: tuple[Mask, Mask], picked: NDArray[np.int64]
) -> None:
    shown, visible = masks
    state = get_explore_state()
    chosen = None
    if len(picked):
        chosen = np.zeros(len(view.ids), np.bool_)
        chosen[picked] = True
    focus = None
    row = view.find_rows(np.array([] if state.focus is None else [state.focus], np.int64))
    if len(row) and visible[row[0]]:  # a circle without its point would mark nothing
        focus = Focus(int(row[0]), state.pan_to_focus, state.focus_count)
    events = MapEvents(
        region=partial(select_region, view, method, visible),
        value=partial(select_value, view, by[1], visible),
        clicked=open_image,
        hidden=partial(set_hidden_values, by[0]),
        cleared=clear_selection,
    )
    marked = Highlight(
        None if shown.all() else shown, chosen, state.hidden_values.get(by[0], []), focus, build_marker(view, method)
    )
    show_scatter_map(view, method, by, key="explore-map", events=events, marked=marked)


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
    if coordinates is not None:
        _select(view.ids[select_inside_polygon(coordinates, corners) & visible], "selected on the map", more)


def select_value(view: ClusterView, colours: Colouring, visible: Mask, value: int, more: bool) -> None:
    """Select the visible images of a legend entry, or add them to the selection; clear it if they are selected."""
    ids = view.ids[(colours.values == value) & visible]
    before = get_explore_state().selection
    if not more and before is not None and np.array_equal(before.ids, ids):
        clear_selection()
        return
    _select(ids, f"of {colours.describe(value)}", more)


def _select(ids: NDArray[np.int64], title: str, more: bool) -> None:
    picked = get_explore_state().picked_ids
    if more and picked:
        ids, title = np.union1d(np.array(picked, np.int64), ids), "selected"
    select_images(ids, title, are_picked=True)
