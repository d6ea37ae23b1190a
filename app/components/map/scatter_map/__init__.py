"""Component of the map (`crlc/export/scatter_map`): loads the points by URL, and sends gestures to Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from app.components.common.component_events import show_component
from app.components.gallery.image_grid import LOADER_SCRIPT
from app.server.routes.maps import build_coordinates_url, build_ids_url, build_values_url
from app.view_models.cluster_view import ClusterView
from app.view_models.colouring import Colouring, compute_colouring
from app.view_models.image_selection import Mask, encode_mask
from crlc.export.scatter_map import read_map_script, read_map_style

_HERE = Path(__file__).parent
_HOVER_PIXELS = 160
_THUMBNAIL_PIXELS = 96


class Focus(NamedTuple):
    """An image with a ring around its point."""

    row: int
    move: bool
    """True if the map pans to the image."""

    turn: int
    """A new number for each request to move."""


class Marker(NamedTuple):
    """A pin at map coordinates that are no point, such as the place of a new image. The map pans to a new marker."""

    x: float
    """From -1 to 1, as `ClusterView.load_coordinates` returns them."""

    y: float
    text: str = ""


class MapEvents(NamedTuple):
    """Callbacks for gestures of the user, called before the page runs again."""

    region: Callable[[list[list[float]], bool], None]
    """Receives the corners of a drawn polygon, and whether it adds to the selection."""

    value: Callable[[int, bool], None]
    """Receives the value of a clicked legend entry, and whether its images are added to the selection."""

    clicked: Callable[[int], None]
    """Receives the id of a clicked image."""

    hidden: Callable[[list[int]], None]
    """Receives all values that are hidden in the legend."""

    cleared: Callable[[], None]
    """Called when the user clears the selection."""


class Highlight(NamedTuple):
    """Images that are highlighted or hidden on the map."""

    shown: Mask | None = None
    """Mask of the visible images; `None` for all."""

    chosen: Mask | None = None
    """Mask of the selected images; `None` for no selection."""

    hidden: Sequence[int] = ()
    """Values hidden in the legend."""

    focus: Focus | None = None
    """An image with a ring."""

    marker: Marker | None = None
    """A pin at any place of the map."""


@cache
def _load_component() -> Any:
    own = (file.read_text(encoding="utf-8") for file in (LOADER_SCRIPT, _HERE / "component.js"))
    script = "\n".join((read_map_script(), *own))
    return st.components.v2.component("crlc_scatter_map", js=script, css=read_map_style())


def show_scatter_map(
    view: ClusterView,
    method: str,
    by: tuple[str, Colouring],
    *,
    key: str,
    events: MapEvents | None = None,
    marked: Highlight | None = None,
    height: int | None = None,
) -> None:
    """Show a computed map; without `events`, a compact map without tools.

    Args:
        view: the view that the images belong to.
        method: method of the map.
        by: name of the colouring, and the colouring.
        key: key of the component.
        events: receives the gestures of the user.
        marked: images that are highlighted or hidden.
        height: in pixels; by default the height of the container.
    """
    marked = marked or Highlight()
    colour_name, colours = by
    data = {
        # Images with the same id are the same only within a dataset. A layout that only grows keeps the user's view.
        "dataset": view.dataset.info.uid,
        "layout": f"{view.kind}/{view.name}/{method}",
        "coordinates": build_coordinates_url(view, method),
        "ids": build_ids_url(view),
        "values": build_values_url(view, colour_name),
        "scale": colours.scale,
        "hidden": list(marked.hidden),
        "shown": encode_mask(marked.shown),
        "chosen": encode_mask(marked.chosen),
        "focus": None if marked.focus is None else marked.focus._asdict(),
        "marker": None if marked.marker is None else marked.marker._asdict(),
        "names": None if colours.scale["kind"] == "categories" else _build_names(view),
        "images": f"/images/{view.dataset.name}/",
        "imageQuery": f"?side={_HOVER_PIXELS}&v=m{view.layout_version}",
        "gallery": f"/galleries/{view.dataset.name}?side={_THUMBNAIL_PIXELS}&v=m{view.layout_version}",
        "height": height,
        "compact": events is None,
    }
    size: Any = "stretch" if height is None else "content"
    show_component(_load_component(), key, {} if events is None else _build_receivers(events), data=data, height=size)


def _build_names(view: ClusterView) -> dict[str, Any]:
    """Return the clusters, whose names are on the map while its colours show something else."""
    return {
        "values": build_values_url(view, "cluster"),
        "entries": compute_colouring(view, "cluster").scale["entries"],
    }


def _build_receivers(events: MapEvents) -> dict[str, Callable[[Any], object]]:
    return {
        "region": lambda drawn: events.region(drawn["corners"], bool(drawn["more"])),
        "value": lambda clicked: events.value(int(clicked["value"]), bool(clicked["more"])),
        "clicked": lambda image_id: events.clicked(int(image_id)),
        "hidden": lambda numbers: events.hidden([int(number) for number in numbers]),
        "cleared": lambda _: events.cleared(),
    }
