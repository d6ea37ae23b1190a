"""Images of a subject as tiles of a gallery, and the pages they are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from html import escape

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.image_grid import Tile, image_grid
from app.exploring.subject import Subject
from app.gallery_routes import gallery_url
from app.image_routes import image_url
from app.state.exploring import exploring, leave_news, open_image, pick, take_news, turn_page
from crlc.data.thumbnails import is_tiny
from crlc.names import printable
from crlc.workspace.image_lookup import records_of

PER_PAGE = 60
_SIDE = 160
_WIDE = 8
"""From so many columns on, a gallery is as wide as the page."""

Rows = NDArray[np.int64]


def tiles_of(
    subject: Subject,
    rows: Rows,
    caption: Callable[[int], str] | None = None,
    mark: Callable[[int], str | None] | None = None,
) -> list[Tile]:
    """Tiles of some images, in their order.

    Args:
        subject: whose images.
        rows: which.
        caption: what stands under an image, by its place in `rows`; by default what the subject says.
        mark: its frame, by its place in `rows`.
    """
    records = records_of(subject.dataset, subject.ids[rows])
    tiles = []
    for place, row in enumerate(rows.tolist()):
        record = records.get(int(subject.ids[row]))
        if record is None:
            continue
        cluster = int(subject.clusters[row])
        sure = "" if subject.confidence is None else f", confidence {subject.confidence[row]:.1%}"
        tiles.append(
            Tile(
                id=record.id,
                content_hash=record.hash or "",
                title=f"{printable(record.path)} · {subject.cluster_text(cluster)}{sure}",
                caption=subject.caption(row) if caption is None else caption(place),
                colour=subject.colour_of(cluster),
                mark=None if mark is None else mark(place),
                is_tiny=is_tiny(record),
            )
        )
    return tiles


def pictures_url(subject: Subject, tiles: Sequence[Tile]) -> str:
    """Where the pictures of some tiles are, all in one answer."""
    ids, hashes = [tile.id for tile in tiles], [tile.content_hash for tile in tiles]
    return gallery_url(subject.dataset.name, ids, hashes, _SIDE)


@st.fragment
def paged_gallery(
    subject: Subject,
    rows: Rows,
    *,
    name: str,
    columns: int,
    picking: bool = False,
    caption: Callable[[int], str] | None = None,
    height: int | None = None,
) -> None:
    """A gallery of many images, a page at a time; turning the page runs nothing else of the page again.

    Args:
        subject: whose images.
        rows: which, in their order.
        name: of the gallery, for which page it shows.
        columns: how many images stand beside each other.
        picking: whether images can be picked.
        caption: what stands under an image, by its row; by default what the subject says.
        height: in pixels, if the images are to scroll inside it; by default all of a page are there.
    """
    if take_news():
        st.rerun()  # an image was opened or picked, which other parts show
    if not len(rows):
        st.info("No image is left with these filters.")
        return
    pages = -(-len(rows) // PER_PAGE)
    page = min(exploring().pages.get(name, 0), pages - 1)
    part = rows[page * PER_PAGE : (page + 1) * PER_PAGE]
    if pages > 1:
        _show_pager(name, page, pages, is_wide=columns >= _WIDE)
    tiles = tiles_of(subject, part, None if caption is None else lambda place: caption(int(part[place])))
    with st.container(height=height, border=False) if height is not None else nullcontext():
        image_grid(
            tiles,
            pictures_url(subject, tiles),
            key=f"gallery-{name}",
            columns=columns,
            opened=_open,
            picked=_pick if picking else None,
            picks=exploring().picks,
        )


def _open(image_id: int) -> None:
    open_image(image_id)
    leave_news()


def _pick(ids: Sequence[int]) -> None:
    pick(ids)
    leave_news()


def _show_pager(name: str, page: int, pages: int, *, is_wide: bool) -> None:
    """Above the images, so that it stays in its place, however many of them the last page has."""
    back, where, on, *_ = st.columns([1, 1.4, 1, *([5] if is_wide else [])], vertical_alignment="center")
    for place, text, to in ((back, "Back", page - 1), (on, "Next", page + 1)):
        place.button(
            text,
            key=f"{text.lower()}-{name}",
            disabled=not 0 <= to < pages,
            on_click=turn_page,
            args=(name, to),
            width="stretch",
        )
    where.html(f"<div style='text-align:center;opacity:.7;white-space:nowrap'>page {page + 1:,} of {pages:,}</div>")


def thumbnails(subject: Subject, rows: Rows, *, columns: int) -> str:
    """A few images as HTML, to look at; their names show when the mouse rests on them."""
    images = "".join(_thumbnail(subject.dataset.name, tile) for tile in tiles_of(subject, rows))
    style = f"display:grid;gap:4px;grid-template-columns:repeat({columns},minmax(0,1fr))"
    return f"<div style='{style}'>{images}</div>"


def _thumbnail(dataset: str, tile: Tile) -> str:
    address = escape(image_url(dataset, tile.id, tile.content_hash, _SIDE))
    return (
        f"<img src='{address}' title='{escape(tile.title)}' alt='' loading='lazy' style='width:100%;aspect-ratio:1;"
        "object-fit:contain;border-radius:4px;background:#8881;"
        f"image-rendering:{'pixelated' if tile.is_tiny else 'auto'}'>"
    )
