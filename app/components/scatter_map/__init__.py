"""The map: a WebGL component of our own. Points go to it by URL, what a person does comes back as a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.exploring.choosing import packed
from app.exploring.colouring import Colouring
from app.exploring.subject import Subject
from app.map_routes import ids_url, places_url, values_url
from app.state.exploring import box
from crlc.data.thumbnails import TINY

_HERE = Path(__file__).parent
_HOVER_SIDE = 160
Mask = NDArray[np.bool_]


class Focus(NamedTuple):
    """An image with a ring around its point."""

    row: int
    move: bool
    """Whether the map goes there."""

    turn: int
    """Another number for each wish to go."""


class MapEvents(NamedTuple):
    """Called with what a person did, before the page runs again."""

    region: Callable[[list[list[float]], bool], None]
    """Drew a line around images: its corners on the map, and whether they are to be added to the choice."""

    clicked: Callable[[int], None]
    """Clicked an image; by id."""

    hidden: Callable[[list[int]], None]
    """Hid or showed values in the legend: all that are hidden now."""

    cleared: Callable[[], None]
    """Wants nothing chosen."""


class Marked(NamedTuple):
    """What stands out on the map, and what is left out."""

    shown: Mask | None = None
    """Images that are shown; none: all."""

    chosen: Mask | None = None
    """Images that are chosen; none: none."""

    hidden: Sequence[int] = ()
    """Values that are hidden in the legend."""

    focus: Focus | None = None
    """An image with a ring."""


@cache
def _component() -> Any:
    # One script: the browser gets it from here and nothing from elsewhere.
    parts = ("points.js", "legend.js", "gestures.js", "map.js")
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in parts)
    return st.components.v2.component("crlc_scatter_map", js=script, css=(_HERE / "map.css").read_text("utf-8"))


def scatter_map(
    subject: Subject,
    method: str,
    by: tuple[str, Colouring],
    *,
    key: str,
    events: MapEvents | None = None,
    marked: Marked | None = None,
    height: int = 520,
) -> None:
    """Show a map that was computed; without `events` a small one, to look at.

    Args:
        subject: whose images.
        method: which of its maps.
        by: what they are coloured by, and the colours.
        key: of the component.
        events: told what a person does.
        marked: what stands out and what is left out.
        height: in pixels.
    """
    marked = marked or Marked()
    colour_name, colours = by
    data = {
        "places": places_url(subject, method),
        "ids": ids_url(subject),
        "values": values_url(subject, colour_name),
        "scale": colours.scale,
        "hidden": list(marked.hidden),
        "shown": packed(marked.shown),
        "chosen": packed(marked.chosen),
        "focus": None if marked.focus is None else marked.focus._asdict(),
        "images": f"/images/{subject.dataset.name}/",
        "imageQuery": f"?side={_HOVER_SIDE}&v=m{subject.layout}",
        "tinySide": TINY,
        "height": height,
        "compact": events is None,
    }
    _component()(key=key, data=data, **({} if events is None else _callbacks(key, events)))


def _callbacks(key: str, events: MapEvents) -> dict[str, Callable[[], None]]:
    def value(name: str) -> Any:
        return box(key).get(name)

    def region() -> None:
        if drawn := value("region"):
            events.region(drawn["corners"], bool(drawn["more"]))

    def clicked() -> None:
        if value("clicked") is not None:
            events.clicked(int(value("clicked")))

    def hidden() -> None:
        if value("hidden") is not None:
            events.hidden([int(number) for number in value("hidden")])

    def cleared() -> None:
        if value("cleared"):
            events.cleared()

    return {
        "on_region_change": region,
        "on_clicked_change": clicked,
        "on_hidden_change": hidden,
        "on_cleared_change": cleared,
    }
