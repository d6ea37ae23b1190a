"""Dialog with one large image, its metadata, its nearest neighbours, and its point on the map."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np
import streamlit as st

from app.components.common.metadata_line import Fact, show_facts
from app.components.common.safe_text import show_caption, show_error, show_text
from app.components.gallery.image_grid import show_image_grid
from app.components.gallery.tiles import build_tile_images_url, build_tiles
from app.components.map.scatter_map import Focus, Highlight, show_scatter_map
from app.state.exploring import close_image, get_explore_state, open_image, select_images, show_on_map
from app.urls import build_image_url
from app.view_models.cluster_view import ClusterView
from app.view_models.colouring import compute_colouring
from crlc.data.thumbnails import is_tiny
from crlc.errors import CrlcError
from crlc.paths import to_printable

_NEIGHBOURS = 12
_SIMILAR_IMAGES = 60
_LARGE_PIXELS = 900


def show_image_dialog(view: ClusterView, method: str | None, go_to_map: Callable[[], object] = st.rerun) -> None:
    """Show the image that the user opened, if any.

    Args:
        view: the view that the image belongs to.
        method: method of the map on the page; `None` if there is no map.
        go_to_map: opens the page with the map and the gallery.
    """
    image_id = get_explore_state().open_image
    if image_id is None:
        return
    try:
        view.find_row(image_id)
    except CrlcError as error:
        close_image()
        show_error(str(error))
        return

    @st.dialog("Image", width="large", on_dismiss=close_image)
    def show_dialog() -> None:
        shown = get_explore_state().open_image
        if shown is not None:
            _show(view, view.find_row(shown), method, go_to_map)

    show_dialog()


def _show(view: ClusterView, row: int, method: str | None, go_to_map: Callable[[], object]) -> None:
    record = view.dataset.read_record(int(view.ids[row]))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        address = build_image_url(view.dataset.name, record.id, record.hash or "", _LARGE_PIXELS)
        st.html(
            f"<img src='{escape(address)}' alt='' "
            "style='display:block;width:100%;height:340px;object-fit:contain;border-radius:6px;background:#8881;"
            f"image-rendering:{'pixelated' if is_tiny(record) else 'auto'}'>"
        )
    with right:
        show_text(to_printable(record.path))
        show_facts(
            _list_facts(view, row, (record.width, record.height)), colour=view.get_colour(int(view.clusters[row]))
        )
        if method is not None:
            show_scatter_map(
                view,
                method,
                ("cluster", compute_colouring(view, "cluster")),
                key="map-of-dialog",
                marked=Highlight(focus=Focus(row, move=False, turn=record.id)),
                height=190,
            )
        more, there = st.columns(2)
        if more.button(
            "Show similar images",
            key="show-similar",
            width="stretch",
            help=f"Selects the {_SIMILAR_IMAGES} nearest images in the gallery.",
        ):
            near = view.find_nearest(row, _SIMILAR_IMAGES)
            ids = np.concatenate([view.ids[[row]], view.ids[near.rows]])
            select_images(ids, f"similar to {to_printable(record.path)}", is_ordered=True)
            close_image()
            go_to_map()
        if there.button("Show on the map", key="show-on-map", width="stretch", disabled=method is None):
            show_on_map(record.id)
            go_to_map()
    _show_neighbours(view, row)


def _show_neighbours(view: ClusterView, row: int) -> None:
    near = view.find_nearest(row, _NEIGHBOURS)
    if not len(near.rows):
        return
    numbers = None if view.classes is None else view.classes[1]
    has_classes = numbers is not None and numbers[row] >= 0

    def format_caption(index: int) -> str:
        confidence = "" if view.confidence is None else f" · confidence {view.confidence[near.rows[index]]:.2f}"
        return f"similarity {near.similarity[index]:.2f}{confidence}"

    def choose_mark(index: int) -> str | None:
        if not has_classes or numbers is None or numbers[near.rows[index]] < 0:
            return None
        return "good" if numbers[near.rows[index]] == numbers[row] else "bad"

    st.markdown(
        "**Nearest images**",
        help="Nearest neighbours by cosine similarity, with the confidence of their clusters: s and p in Fig. 2 of the "
        "paper.",
    )
    if has_classes:
        show_caption("Green frame: same class. Red dashed frame: another class.")
    tiles = build_tiles(view, near.rows, format_caption, choose_mark)
    show_image_grid(tiles, build_tile_images_url(view, tiles), key="gallery-neighbours", columns=6, opened=open_image)


def _list_facts(view: ClusterView, row: int, size: tuple[int | None, int | None]) -> list[Fact]:
    word = "provisional cluster" if view.is_provisional else "cluster"
    cluster = view.format_cluster(int(view.clusters[row]))
    facts = [Fact(cluster, f"The {word} of the image.")]
    if view.confidence is not None:
        facts.append(Fact(f"confidence {view.confidence[row]:.1%}", "Probability of the assigned cluster."))
    label = view.annotation_state.get_label(int(view.ids[row]))
    if label is not None:
        facts.append(Fact(f"label {to_printable(label)}", "Label given by the user."))
    if view.classes is not None and view.classes[1][row] >= 0:
        name = to_printable(view.classes[0][int(view.classes[1][row])])
        facts.append(Fact(f"class {name}", "Ground-truth class from the data; never used to train."))
    if all(size):
        facts.append(Fact(f"{size[0]} × {size[1]} px", "Width and height of the original."))  # noqa: RUF001
    return facts
