"""Galleries of the images of a view: tiles, pages and thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import PurePosixPath

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.common.fragments import make_fragment
from app.components.gallery.image_grid import Tile, show_image_grid
from app.state.exploring import change_picks, get_explore_state, open_image, pop_rerun_request, request_rerun, set_page
from app.urls import build_gallery_url
from app.view_models.cluster_view import ClusterView
from app.view_models.image_columns import describe_images
from crlc.arrays import ImageIds
from crlc.data.image_lookup import read_records
from crlc.formatting import format_count, shorten_middle
from crlc.paths import to_printable

PER_PAGE = 60
_THUMBNAIL_PIXELS = 160
_TOOLTIP_COLUMNS = 12
_CAPTION_CHARACTERS = 15
_PAGER_WORDS = "text-align:center;opacity:.75;font-size:.9rem;line-height:1.25;white-space:nowrap"
_PAGER_HEIGHT = "2.4rem"
_FULL_WIDTH_COLUMNS = 8
"""With this many columns or more, a gallery is as wide as the page."""

Rows = NDArray[np.int64]


def build_tiles(
    view: ClusterView,
    rows: Rows,
    caption: Callable[[int], str | None] | None = None,
    mark: Callable[[int], str | None] | None = None,
    colour: Callable[[int], str] | None = None,
    *,
    detailed: bool = False,
) -> list[Tile]:
    """Return the tiles of some images, in their order.

    Args:
        view: the view that the images belong to.
        rows: rows of the images.
        caption: returns the caption of an image by its index in `rows`, or `None` for its file name; by default that of
            the view.
        mark: returns the frame of an image by its index in `rows`.
        colour: returns the colour of the dot of an image by its row in the view; by default that of its cluster.
        detailed: True if the tooltips list the columns of the images.
    """
    records = read_records(view.dataset, view.ids[rows])
    details = describe_images(view, view.ids[rows]) if detailed else None
    tiles = []
    for index, row in enumerate(rows.tolist()):
        record = records.get(int(view.ids[row]))
        if record is None:
            continue
        cluster = int(view.clusters[row])
        text = view.format_caption(row) if caption is None else caption(index)
        confidence = "" if view.confidence is None else f", confidence {view.confidence[row]:.1%}"
        tiles.append(
            Tile(
                id=record.id,
                content_hash=record.hash or "",
                title=f"{to_printable(record.path)} · {view.format_cluster(cluster)}{confidence}",
                caption=_format_file_name(record.path) if text is None else text,
                colour=view.get_colour(cluster) if colour is None else colour(row),
                mark=None if mark is None else mark(index),
                details=""
                if details is None
                else "\n".join(f"{title}: {text}" for title, text in details[index][:_TOOLTIP_COLUMNS]),
            )
        )
    return tiles


def _format_file_name(path: str) -> str:
    """Return the name of a file as a caption, which would cut off what tells `IMG_0001.jpg` from `IMG_0002.jpg`."""
    return shorten_middle(to_printable(PurePosixPath(path).name), _CAPTION_CHARACTERS)


def build_excluded_tiles(view: ClusterView, ids: ImageIds) -> list[Tile]:
    """Return the tiles of excluded images, which a view does not have, in the order of their ids."""
    records = read_records(view.dataset, ids)
    return [
        Tile(record.id, record.hash or "", to_printable(record.path), to_printable(PurePosixPath(record.path).name))
        for record in (records[number] for number in ids.tolist())
    ]


def build_tile_images_url(view: ClusterView, tiles: Sequence[Tile]) -> str:
    """Return the URL of the images of some tiles, all in one response."""
    ids, hashes = [tile.id for tile in tiles], [tile.content_hash for tile in tiles]
    return build_gallery_url(view.dataset.name, ids, hashes, _THUMBNAIL_PIXELS)


def show_paged_gallery(
    view: ClusterView,
    rows: Rows,
    *,
    name: str,
    columns: int | None,
    picking: bool = False,
    caption: Callable[[int], str | None] | None = None,
    colour: Callable[[int], str] | None = None,
) -> None:
    """Show a gallery of many images, one page at a time; turning a page redraws only the gallery.

    Args:
        view: the view that the images belong to.
        rows: rows of the images, in their order.
        name: name of the gallery, under which its page number is stored.
        columns: number of columns; `None` for as many as fit, in a gallery that scrolls and fills its container.
        picking: True if images can be selected.
        caption: returns the caption of an image by its row, or `None` for its file name; by default that of the view.
        colour: returns the colour of the dot of an image by its row; by default that of its cluster.
    """
    get_explore_state().listed_ids = view.ids[rows]

    def build(part: slice) -> list[Tile]:
        shown = rows[part]
        return build_tiles(
            view,
            shown,
            None if caption is None else lambda index: caption(int(shown[index])),
            colour=colour,
            detailed=True,
        )

    show_paged_tiles(view, len(rows), build, name=name, columns=columns, picking=picking)


@make_fragment
def show_paged_tiles(
    view: ClusterView,
    count: int,
    build: Callable[[slice], list[Tile]],
    *,
    name: str,
    columns: int | None,
    picking: bool = False,
    opening: bool = True,
) -> None:
    """Show a gallery of tiles, one page at a time; see `show_paged_gallery`.

    Args:
        view: the view that the images belong to.
        count: number of all tiles.
        build: returns some of the tiles.
        name: name of the gallery, under which its page number is stored.
        columns: number of columns; `None` for as many as fit, in a gallery that scrolls and fills its container.
        picking: True if images can be selected.
        opening: True if a click opens an image.
    """
    if pop_rerun_request():
        st.rerun()  # an image was opened or selected, which other parts of the page show
    fills = columns is None
    pages = max(1, -(-count // PER_PAGE))
    page = min(get_explore_state().gallery_pages.get(name, 0), pages - 1)
    if pages > 1 or fills:  # a gallery that fills its container keeps the row, so that its images do not move
        found = _format_listed(view, count) if fills else None
        _show_pager(name, page, pages, found, is_wide=columns is not None and columns >= _FULL_WIDTH_COLUMNS)
    if not count:
        st.info("No images match these filters.")
        return
    tiles = build(slice(page * PER_PAGE, (page + 1) * PER_PAGE))
    with st.container(key=f"scroll-{name}") if fills else nullcontext():
        show_image_grid(
            tiles,
            build_tile_images_url(view, tiles),
            key=f"gallery-{name}",
            columns=columns,
            opened=_open_image if opening else None,
            picked=_change_picks if picking else None,
            picks=set(get_explore_state().picked_ids),
        )


def _open_image(image_id: int) -> None:
    open_image(image_id)
    request_rerun()


def _change_picks(added: Sequence[int], removed: Sequence[int]) -> None:
    change_picks(added, removed)
    request_rerun()


def _format_listed(view: ClusterView, count: int) -> str:
    """Return how many images a gallery lists: `54 of 3,000 images`."""
    total = len(view.ids)
    return f"{count:,} of {format_count(total, 'image')}" if count < total else format_count(count, "image")


def _show_pager(name: str, page: int, pages: int, found: str | None, *, is_wide: bool) -> None:
    """Show the page buttons above the images, where a short last page does not move them.

    Args:
        name: name of the gallery.
        page: index of the page.
        pages: number of pages; a single one has no buttons.
        found: number of images, in words.
        is_wide: True if the gallery is as wide as the page.
    """
    back, where, on, *_ = st.columns([1, 1.4, 1, *([5] if is_wide else [])], vertical_alignment="center")
    for column, text, to in ((back, "Previous", page - 1), (on, "Next", page + 1)) if pages > 1 else ():
        column.button(
            text,
            key=f"{text.lower()}-page-{name}",
            disabled=not 0 <= to < pages,
            on_click=set_page,
            args=(name, to),
            width="stretch",
        )
    words = [] if found is None else [f"<div role='status'>{found}</div>"]
    words += [f"Page {page + 1:,} of {pages:,}"] if pages > 1 else []
    height = f"line-height:{_PAGER_HEIGHT}" if pages == 1 else ""  # that of the buttons
    where.html(f"<div style='{_PAGER_WORDS};{height}'>{''.join(words)}</div>")
