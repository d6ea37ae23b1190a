"""Component that shows a grid of images, which can be opened and selected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component

_HERE = Path(__file__).parent
LOADER_SCRIPT = _HERE / "loader.js"
"""Script that loads many images in one response; other components with images use it too."""


@dataclass(frozen=True)
class Tile:
    """One image of a gallery; its texts are safe text."""

    id: int
    content_hash: str
    title: str
    caption: str
    colour: str | None = None
    mark: str | None = None
    """Frame of the image: `good`, `bad` or none."""

    details: str = ""
    """Further lines of the tooltip."""


@cache
def _load_component() -> Any:
    # One script: the browser loads nothing from other servers.
    script = "\n".join(file.read_text(encoding="utf-8") for file in (LOADER_SCRIPT, _HERE / "grid.js"))
    style = (_HERE / "grid.css").read_text(encoding="utf-8")
    return st.components.v2.component("crlc_image_grid", js=script, css=style)


def show_image_grid(
    tiles: Sequence[Tile],
    images_url: str,
    *,
    key: str,
    columns: int | None = None,
    opened: Callable[[int], None] | None = None,
    picked: Callable[[list[int], list[int]], None] | None = None,
    picks: Collection[int] = (),
) -> None:
    """Show a grid of images.

    Args:
        tiles: the images, in order.
        images_url: URL that returns the images of all tiles, in the same order.
        key: key of the component.
        columns: number of columns; `None` for as many as fit.
        opened: receives the id of a clicked image, before the page runs again; `None` if a click selects the image.
        picked: receives the ids of images that were selected, and of those that no longer are; `None` if images cannot
            be selected.
        picks: ids of the images that are selected; those of other pages are ignored.
    """

    def handle_open(value: Any) -> None:
        if opened is not None:
            opened(int(value))

    def handle_pick(value: Any) -> None:
        if picked is not None:
            picked(*([int(number) for number in value[kind]] for kind in ("added", "removed")))

    data = {
        "items": [asdict(tile) for tile in tiles],
        "images": images_url,
        "columns": columns,
        "opening": opened is not None,
        "picking": picked is not None,
        "picked": [tile.id for tile in tiles if tile.id in picks],
    }
    receivers = {"opened": handle_open} | ({} if picked is None else {"picked": handle_pick})
    show_component(_load_component(), key, receivers, data=data)
