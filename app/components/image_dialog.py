"""One image large, what is known of it, its nearest neighbours, and its place on the map."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np
import streamlit as st

from app.components.facts import Fact, show_facts
from app.components.image_grid import image_grid
from app.components.plain import show_caption, show_error, show_text
from app.components.scatter_map import Focus, Marked, scatter_map
from app.components.tiles import pictures_url, tiles_of
from app.exploring.colouring import colouring
from app.exploring.subject import Subject
from app.image_routes import image_url
from app.state.exploring import choose, close_image, exploring, open_image, show_on_map
from crlc.data.thumbnails import is_tiny
from crlc.errors import CrlcError
from crlc.names import printable

_NEIGHBOURS = 12
_MORE = 60
_LARGE = 900


def show_opened(subject: Subject, method: str | None, go_to_map: Callable[[], object] = st.rerun) -> None:
    """Show the image that a person opened, if any.

    Args:
        subject: whose image.
        method: the map that the page shows; none while it shows none.
        go_to_map: shows the page with map and gallery.
    """
    image_id = exploring().opened
    if image_id is None:
        return
    try:
        subject.row_of(image_id)
    except CrlcError as error:
        close_image()
        show_error(str(error))
        return

    @st.dialog("Image", width="large", on_dismiss=close_image)
    def dialog() -> None:
        shown = exploring().opened
        if shown is not None:
            _show(subject, subject.row_of(shown), method, go_to_map)

    dialog()


def _show(subject: Subject, row: int, method: str | None, go_to_map: Callable[[], object]) -> None:
    record = subject.dataset.record(int(subject.ids[row]))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.html(
            f"<img src='{escape(image_url(subject.dataset.name, record.id, record.hash or '', _LARGE))}' alt='' "
            "style='display:block;width:100%;height:340px;object-fit:contain;border-radius:6px;background:#8881;"
            f"image-rendering:{'pixelated' if is_tiny(record) else 'auto'}'>"
        )
    with right:
        show_text(printable(record.path))
        show_facts(
            _facts(subject, row, (record.width, record.height)), colour=subject.colour_of(int(subject.clusters[row]))
        )
        if method is not None:
            scatter_map(
                subject,
                method,
                ("cluster", colouring(subject, "cluster")),
                key="map-of-dialog",
                marked=Marked(focus=Focus(row, move=False, turn=record.id)),
                height=190,
            )
        more, there = st.columns(2)
        if more.button("More like this", width="stretch", help=f"Show the {_MORE} nearest images in the gallery."):
            near = subject.nearest(row, _MORE)
            ids = np.concatenate([subject.ids[[row]], subject.ids[near.rows]])
            choose(ids, f"like {printable(record.path)}", is_ordered=True)
            close_image()
            go_to_map()
        if there.button("Show on the map", width="stretch", disabled=method is None):
            show_on_map(record.id)
            go_to_map()
    _show_neighbours(subject, row)


def _show_neighbours(subject: Subject, row: int) -> None:
    near = subject.nearest(row, _NEIGHBOURS)
    if not len(near.rows):
        return
    numbers = None if subject.classes is None else subject.classes[1]
    has_classes = numbers is not None and numbers[row] >= 0

    def caption(place: int) -> str:
        sure = "" if subject.confidence is None else f"  p {subject.confidence[near.rows[place]]:.2f}"
        return f"s {near.similarity[place]:.2f}{sure}"

    def mark(place: int) -> str | None:
        if not has_classes or numbers is None or numbers[near.rows[place]] < 0:
            return None
        return "good" if numbers[near.rows[place]] == numbers[row] else "bad"

    meaning = "Nearest images. s: similarity (cosine, at most 1)"
    meaning += "" if subject.confidence is None else ", p: how sure the run is of its cluster (at most 1)"
    meaning += ". Green frame: same class; red, dashed: another class." if has_classes else "."
    show_caption(meaning)
    tiles = tiles_of(subject, near.rows, caption, mark)
    image_grid(tiles, pictures_url(subject, tiles), key="gallery-neighbours", columns=6, opened=open_image)


def _facts(subject: Subject, row: int, size: tuple[int | None, int | None]) -> list[Fact]:
    word = "provisional cluster" if subject.is_provisional else "cluster"
    cluster = subject.cluster_text(int(subject.clusters[row]))
    facts = [Fact(cluster, f"The {word} that the image is in.")]
    if subject.confidence is not None:
        facts.append(Fact(f"confidence {subject.confidence[row]:.1%}", "How sure the run is of the cluster it chose."))
    label = subject.curation.label(int(subject.ids[row]))
    if label is not None:
        facts.append(Fact(f"label {printable(label)}", "What a person said it is."))
    if subject.classes is not None and subject.classes[1][row] >= 0:
        name = printable(subject.classes[0][int(subject.classes[1][row])])
        facts.append(Fact(f"class {name}", "What came with the data; never used to train."))
    if all(size):
        facts.append(Fact(f"{size[0]} × {size[1]} px", "Width and height of the original."))  # noqa: RUF001
    return facts
