"""Dialog of one image: zoom and pan, metadata, label, cluster and exclusion, point on the map, and neighbours."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import streamlit as st

from app.background.file_manager import can_reveal_files, reveal_file
from app.components.clusters.editing import apply_edit, move_images
from app.components.clusters.undo_toast import show_undo_toast
from app.components.common.metadata_line import Fact, show_facts
from app.components.common.safe_text import show_error
from app.components.explore.lightbox import LightboxImage, show_lightbox
from app.components.gallery.image_grid import show_image_grid
from app.components.gallery.tiles import build_tile_images_url, build_tiles
from app.components.labelling.bulk_label import list_names
from app.components.map.scatter_map import Focus, Highlight, show_scatter_map
from app.state.exploring import (
    close_image,
    close_image_of_another_page,
    get_explore_state,
    open_image,
    select_images,
    show_on_map,
)
from app.state.location import sync_url_parameter, write_url_parameters
from app.state.widgets import get_widget_value, set_widget_value
from app.urls import build_image_url
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.colouring import compute_colouring
from app.view_models.image_columns import describe_image
from app.view_models.view_cache import open_annotations, open_view
from app.view_models.words import FoundImages, get_words
from crlc.annotations.store import HistoryEntry
from crlc.data.image_lookup import read_records
from crlc.data.imagenet_words import WORDS_ORIGIN
from crlc.data.manifest import ImageRecord
from crlc.data.originals import find_original
from crlc.errors import CrlcError, NotFoundError
from crlc.paths import to_printable
from crlc.workspace import Workspace

_NEIGHBOURS = 12
_LISTED_CLASSES = 5
_SIMILAR_IMAGES = 60
_LARGE_PIXELS = 1400
_STYLE = Path(__file__).with_name("image_dialog.css")
_COLUMN_TITLE = "text-align:left;font-weight:400;opacity:.8;padding-right:1rem;white-space:nowrap;vertical-align:top"
_LOOPBACK_ADDRESSES = (None, "127.0.0.1", "::1")


def show_image_dialog(view: ClusterView, method: str | None, go_to_map: Callable[[], object] = st.rerun) -> None:
    """Show the image that the user opened, if any.

    Args:
        view: the view that the image belongs to.
        method: method of the map on the page; `None` if there is no map.
        go_to_map: opens the page with the map and the gallery.
    """
    close_image_of_another_page()
    _sync_with_url()
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
        if shown is None:
            return
        write_url_parameters({"image": str(shown)})  # arrows and neighbours run only the dialog
        try:
            # Labels and clusters change while the dialog is open.
            current = open_view(Workspace(), view.kind, view.name)
            _show(current, current.find_row(shown), method, go_to_map)
        except CrlcError as error:
            show_error(str(error))

    show_dialog()


def _sync_with_url() -> None:
    """Open the image in the URL if the URL leads, else write the open image to the URL."""
    opened = get_explore_state().open_image
    current = None if opened is None else str(opened)
    in_url = sync_url_parameter("image", current)
    if in_url == current:
        return
    if in_url is not None and in_url.isascii() and in_url.isdecimal():
        open_image(int(in_url))
    else:
        close_image()


def _show(view: ClusterView, row: int, method: str | None, go_to_map: Callable[[], object]) -> None:
    st.html(_STYLE)
    record = view.dataset.read_record(int(view.ids[row]))
    left, right = st.columns([3, 1.15], gap="medium")
    with left, st.container(key="lightbox"):
        _show_large_image(view, record)
    with right:
        with st.container(key="dialog-facts"):
            show_facts(
                _list_facts(view, row, (record.width, record.height)), colour=view.get_colour(int(view.clusters[row]))
            )
        _show_edits(view, row)
        if method is not None:
            show_scatter_map(
                view,
                method,
                ("cluster", compute_colouring(view, "cluster")),
                key="map-of-dialog",
                marked=Highlight(focus=Focus(row, move=False, turn=record.id)),
                height=150,
            )
        _show_columns(view, record.id)
        more, there = st.columns(2)
        if more.button(
            "Show similar",
            key="show-similar",
            width="stretch",
            help=f"Selects the {_SIMILAR_IMAGES} nearest images in the gallery.",
        ):
            near = view.find_nearest(row, _SIMILAR_IMAGES)
            ids = np.concatenate([view.ids[[row]], view.ids[near.rows]])
            found = FoundImages.from_similarities(ids, np.concatenate([[1.0], near.similarity]))
            title = f"similar to {to_printable(record.path)}"
            select_images(ids, title, is_ordered=True, are_picked=True, found=found)
            close_image()
            go_to_map()
        if there.button("Show on map", key="show-on-map", width="stretch", disabled=method is None):
            show_on_map(record.id)
            go_to_map()
    _show_neighbours(view, row)
    show_undo_toast(view, key="dialog")


# ---- image


def _show_large_image(view: ClusterView, record: ImageRecord) -> None:
    before, after, position = _find_position(view, record.id)
    original = find_original(view.dataset, record.path)
    ids = np.array([number for number in (before, after) if number is not None], np.int64)
    preload = tuple(_build_large_url(view, found) for found in read_records(view.dataset, ids).values())
    is_local = st.context.ip_address in _LOOPBACK_ADDRESSES
    image = LightboxImage(
        id=record.id,
        name=to_printable(PurePosixPath(record.path).name),
        path=to_printable(str(original or record.path)),
        url=_build_large_url(view, record),
        original_url=build_image_url(view.dataset.name, record.id, record.hash or "", None),
        width=record.width,
        height=record.height,
        position=position,
        has_previous=before is not None,
        has_next=after is not None,
        can_reveal=is_local and original is not None and can_reveal_files(),
        preload=preload,
    )

    def step(by: int) -> None:
        target = after if by > 0 else before
        if target is not None:
            open_image(target)

    show_lightbox(
        image, key="lightbox-image", stepped=step, revealed=lambda: None if original is None else reveal_file(original)
    )


def _build_large_url(view: ClusterView, record: ImageRecord) -> str:
    return build_image_url(view.dataset.name, record.id, record.hash or "", _LARGE_PIXELS)


def _find_position(view: ClusterView, image_id: int) -> tuple[int | None, int | None, str]:
    """Return the previous and the next image of the gallery, and the position in it; without excluded images."""
    listed = get_explore_state().listed_ids
    here = np.flatnonzero(listed == image_id)
    if not len(here):
        return None, None, ""
    at = int(here[0])
    position = f"{at + 1:,} of {len(listed):,}"
    return _find_shown(view, listed[:at][::-1]), _find_shown(view, listed[at + 1 :]), position


def _find_shown(view: ClusterView, ids: np.ndarray[Any, np.dtype[np.int64]]) -> int | None:
    """Return the first image that the view still has."""
    for image_id in ids.tolist():
        try:
            view.find_row(image_id)
        except NotFoundError:
            continue
        return int(image_id)
    return None


# ---- label, cluster, exclusion


def _show_edits(view: ClusterView, row: int) -> None:
    image_id = int(view.ids[row])
    names, label = list_names(view), view.annotation_state.get_label(image_id)
    label_key, cluster_key = f"dialog-label-{image_id}", f"dialog-cluster-{image_id}"
    set_widget_value(label_key, label)
    st.selectbox(
        "Label",
        [*names, *([label] if label is not None and label not in names else [])],
        index=None,
        placeholder="Choose or type a label",
        accept_new_options=True,
        key=label_key,
        format_func=to_printable,
        on_change=lambda: _set_label(view, image_id, label, get_widget_value(label_key)),
        label_visibility="collapsed",
    )
    if isinstance(view, RunView) and view.shown_level is None:
        cluster = int(view.clusters[row])
        set_widget_value(cluster_key, cluster)
        st.selectbox(
            "Cluster",
            view.cluster_numbers,
            key=cluster_key,
            format_func=lambda number: f"In {view.format_cluster(number)}",
            on_change=lambda: _move(view, image_id, cluster, get_widget_value(cluster_key)),
            help="Moves the image to another cluster.",
            label_visibility="collapsed",
        )
    st.button(
        "Exclude",
        key="dialog-exclude",
        icon=":material/block:",
        width="stretch",
        on_click=_exclude,
        args=(view, image_id),
        help="Leaves the image out of training and exports, and shows the next one.",
    )


def _set_label(view: ClusterView, image_id: int, shown: str | None, name: str | None) -> None:
    """Label an image, or remove its label; `shown` is the label before.

    After the dialog has closed, the browser may send the values of its widgets once more: these change nothing.
    """
    if name == shown:
        return
    annotations = open_annotations(view.dataset)

    def do() -> HistoryEntry | None:
        return annotations.label([image_id], name) if name else annotations.unlabel([image_id])

    apply_edit(do)


def _move(view: RunView, image_id: int, shown: int, cluster: int | None) -> None:
    """Move an image to another cluster than the one shown before."""
    if cluster is not None and cluster != shown:
        move_images(view, [image_id], cluster)


def _exclude(view: ClusterView, image_id: int) -> None:
    before, after, _ = _find_position(view, image_id)
    apply_edit(lambda: open_annotations(view.dataset).exclude([image_id]))
    target = after if after is not None else before
    if get_explore_state().problem is not None:
        return
    if target is None:
        close_image()
    else:
        open_image(target)


# ---- neighbours and metadata


def _show_neighbours(view: ClusterView, row: int) -> None:
    near = view.find_nearest(row, _NEIGHBOURS)
    if not len(near.rows):
        return
    numbers = None if view.classes is None else view.classes[1]
    has_classes = numbers is not None and numbers[row] >= 0

    def format_caption(index: int) -> str:
        confidence = "" if view.confidence is None else f" · {view.confidence[near.rows[index]]:.0%}"
        return f"{near.similarity[index]:.2f}{confidence}"

    def choose_mark(index: int) -> str | None:
        if not has_classes or numbers is None or numbers[near.rows[index]] < 0:
            return None
        return "good" if numbers[near.rows[index]] == numbers[row] else "bad"

    frames = " Green frame: same class. Red dashed frame: another class." if has_classes else ""
    st.markdown(
        f"**Nearest images** by similarity{'' if view.confidence is None else ' · confidence'}",
        help="Nearest neighbours by cosine similarity, with the confidence of their clusters: s and p in Fig. 2 of the "
        f"paper.{frames}",
    )
    tiles = build_tiles(view, near.rows, format_caption, choose_mark)
    show_image_grid(
        tiles, build_tile_images_url(view, tiles), key="gallery-neighbours", columns=_NEIGHBOURS, opened=open_image
    )


def _show_columns(view: ClusterView, image_id: int) -> None:
    """Show every column of the image in a popover: there is no room for them beside the image."""
    found = describe_image(view, image_id)
    with st.popover(
        "Details", icon=":material/info:", width="stretch", key="dialog-columns", help="Shows the columns of the image."
    ):
        rows = "".join(
            f"<tr title='{escape(info.description)}'><th scope='row' style='{_COLUMN_TITLE}'>{escape(info.title)}</th>"
            f"<td style='overflow-wrap:anywhere'>{escape(text)}</td></tr>"
            for info, text in found
        )
        st.html(f"<table style='font-size:.9rem;border-spacing:0 .15rem'>{rows}</table>")


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
    words = get_words(view)
    recognised = [] if words is None else words.list_best_classes(row, _LISTED_CLASSES)
    if recognised:
        name, probability = recognised[0]
        listed = ", ".join(f"{one} {value:.0%}" for one, value in recognised)
        facts.append(Fact(f"{name} {probability:.0%}", f"Most probable {WORDS_ORIGIN}: {listed}."))
    if all(size):
        facts.append(Fact(f"{size[0]} × {size[1]} px", "Width and height of the original."))  # noqa: RUF001
    return facts
