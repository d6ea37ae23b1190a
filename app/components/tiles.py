"""Images of a subject as tiles of a gallery, and the pages they are on."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.image_grid import Tile, image_grid
from app.exploring.subject import Subject
from app.figures.colours import colour_of
from app.routes import image_url
from app.state.exploring import exploring, open_image, pick, turn_page
from crlc.names import printable
from crlc.workspace.image_lookup import records_of

PER_PAGE = 60
_SIDE = 160
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
                src=image_url(subject.dataset.name, record.id, record.hash or "", _SIDE),
                title=f"{printable(record.path)} · {subject.cluster_text(cluster)}{sure}",
                caption=subject.caption(row) if caption is None else caption(place),
                colour=colour_of(cluster),
                mark=None if mark is None else mark(place),
            )
        )
    return tiles


def paged_gallery(
    subject: Subject,
    rows: Rows,
    *,
    name: str,
    columns: int,
    picking: bool = False,
    caption: Callable[[int], str] | None = None,
) -> None:
    """A gallery of many images, a page at a time; under each stands what its row is said to be."""
    if not len(rows):
        st.info("No image is left with these filters.")
        return
    state = exploring()
    pages = -(-len(rows) // PER_PAGE)
    page = min(state.pages.get(name, 0), pages - 1)
    part = rows[page * PER_PAGE : (page + 1) * PER_PAGE]
    image_grid(
        tiles_of(subject, part, None if caption is None else lambda place: caption(int(part[place]))),
        key=f"gallery-{name}",
        columns=columns,
        opened=open_image,
        picked=pick if picking else None,
        picks=state.picks,
    )
    if pages > 1:
        back, where, on = st.columns([1, 2, 1], vertical_alignment="center")
        back.button(
            "Back", key=f"back-{name}", disabled=page == 0, on_click=turn_page, args=(name, page - 1), width="stretch"
        )
        where.html(f"<div style='text-align:center;opacity:.7'>page {page + 1:,} of {pages:,}</div>")
        on.button(
            "Next",
            key=f"next-{name}",
            disabled=page == pages - 1,
            on_click=turn_page,
            args=(name, page + 1),
            width="stretch",
        )


def thumbnails(subject: Subject, rows: Rows, *, columns: int) -> str:
    """A few images as HTML, to look at; their names show when the mouse rests on them."""
    images = "".join(
        f"<img src='{escape(tile.src)}' title='{escape(tile.title)}' alt='' loading='lazy' "
        "style='width:100%;aspect-ratio:1;object-fit:contain;border-radius:4px;background:#8881'>"
        for tile in tiles_of(subject, rows)
    )
    style = f"display:grid;gap:4px;grid-template-columns:repeat({columns},minmax(0,1fr))"
    return f"<div style='{style}'>{images}</div>"
