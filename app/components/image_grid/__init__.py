"""A grid of images that can be opened and picked: a small component of our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.state.exploring import box

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tile:
    """One image of a gallery; texts are shown letter by letter."""

    id: int
    content_hash: str
    title: str
    caption: str
    colour: str | None = None
    mark: str | None = None
    """`good` or `bad`: its frame."""

    is_tiny: bool = False
    """Whether a pixel stays a pixel when it is enlarged."""


@cache
def _component() -> Any:
    # One script: the browser gets it from here and nothing from elsewhere.
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("pictures.js", "grid.js"))
    style = (_HERE / "grid.css").read_text(encoding="utf-8")
    return st.components.v2.component("crlc_image_grid", js=script, css=style)


def image_grid(
    tiles: Sequence[Tile],
    pictures: str,
    *,
    key: str,
    columns: int,
    opened: Callable[[int], None],
    picked: Callable[[list[int]], None] | None = None,
    picks: Sequence[int] = (),
) -> None:
    """Show images.

    Args:
        tiles: in their order.
        pictures: where all their pictures are, in the same order.
        key: of the component.
        columns: how many stand beside each other.
        opened: called with the id of the image that was clicked, before the page runs again.
        picked: called with the ids of all images that are picked now; none: they cannot be picked.
        picks: which are picked.
    """

    def open_it() -> None:
        value = box(key).get("opened")
        if value is not None:
            opened(int(value))

    def pick_them() -> None:
        value = box(key).get("picked")
        if value is not None and picked is not None:
            picked([int(number) for number in value])

    data = {
        "items": [asdict(tile) for tile in tiles],
        "pictures": pictures,
        "columns": columns,
        "picking": picked is not None,
        "picked": [int(number) for number in picks],
    }
    callbacks = {"on_opened_change": open_it} | ({} if picked is None else {"on_picked_change": pick_them})
    _component()(key=key, data=data, **callbacks)
