"""Explore: the map with a gallery beside it; one choice of images for both."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.bulk_label import show_label_popover
from app.components.editing import move, show_history
from app.components.image_dialog import show_opened
from app.components.plain import show_caption, show_error
from app.components.scatter_map import Focus, MapEvents, Marked, scatter_map
from app.components.subjects import subject_of_page
from app.components.tiles import paged_gallery
from app.components.waiting import need_quality, watch
from app.exploring.background import begin, work
from app.exploring.choosing import OUTCOMES, inside_polygon, outcome_mask
from app.exploring.colouring import Colouring, colouring, colours_of
from app.exploring.subject import METHODS, RunSubject, Subject
from app.state.exploring import box, choose, clear_choice, exploring, open_image, remembered, turn_page
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.names import printable
from crlc.workspace import Workspace
from crlc.workspace.image_lookup import search_paths

_AT_ONCE = 20_000
"""Up to that many images a map is begun without asking: it takes a minute at most."""

_GALLERY_HEIGHT = 500
"""Beside the map: the images scroll, the map stays in sight."""

_ANY = -1
_NEEDS_QUALITY = ("most typical", "odd")
Mask = NDArray[np.bool_]


def render() -> None:
    """The page."""
    subject = subject_of_page(Workspace(), "explore")
    if subject is None:
        return
    exploring(subject.kind, subject.name)
    try:
        _show(subject)
    except CrlcError as error:
        show_error(str(error))


def _show(subject: Subject) -> None:
    method, by, shown = _ask(subject)
    if by == "agreement" or box("explore-order") in _NEEDS_QUALITY:
        need_quality(subject)
    colours = colouring(subject, by)
    hidden = exploring().hidden.get(by, [])
    visible = shown & ~np.isin(colours.values, hidden)
    map_side, gallery_side = st.columns([3, 2], gap="medium")
    with map_side:
        drawn = _show_map(subject, method, (by, colours), shown, visible)
    with gallery_side:
        _show_gallery(subject, visible)
    show_opened(subject, drawn)


# ---- what is asked


def _ask(subject: Subject) -> tuple[str, str, Mask]:
    """Which map, coloured by what, and which images the filters let through."""
    methods, possible = list(METHODS), list(colours_of(subject))
    remembered("explore-method", "umap", methods)
    remembered("explore-by", "cluster", possible)
    one, two, three = st.columns([2.2, 4, 1.8], vertical_alignment="bottom")
    method = one.segmented_control(
        "Map",
        methods,
        key="explore-method",
        format_func=METHODS.__getitem__,
        required=True,
        help="How similar images are brought together: UMAP and t-SNE keep neighbours together, PCA keeps the large "
        "shape and is there at once.",
    )
    by = two.segmented_control(
        "Colour by",
        possible,
        key="explore-by",
        required=True,
        help="Cluster: what the run found. Label: what a person said. Class: what came with the data. Confidence: how "
        "sure the run is, 0 to 100 %. Agreement: the share of an image's neighbours in the same cluster, 0 to 100 %.",
    )
    with three.popover("Filters", icon=":material/filter_alt:", width="stretch"):
        mask = _filters(subject)
    return method or "umap", by or "cluster", mask


def _filters(subject: Subject) -> Mask:
    mask = np.ones(len(subject.ids), np.bool_)
    text = st.text_input(
        "File name", key="explore-search", placeholder="part of a file name", help="Shows images whose path holds this."
    ).strip()
    if text:
        mask &= np.isin(subject.ids, _found(subject.dataset, subject.dataset.version, text))
    if subject.classes is None or subject.matched is None:
        return mask
    names, numbers = subject.classes
    remembered("explore-outcome", "all", OUTCOMES)
    outcome = st.segmented_control(
        "Against the classes",
        OUTCOMES,
        key="explore-outcome",
        required=True,
        help="Each class is matched to one cluster. Correct: in the cluster of its class. False negative: of the "
        "class, but elsewhere. False positive: in the cluster of the class, but of another class.",
    )
    classes = [_ANY, *range(len(names))]
    remembered("explore-class", _ANY, classes)
    of = st.selectbox(
        "Of class",
        classes,
        key="explore-class",
        format_func=lambda number: "any class" if number == _ANY else printable(names[number]),
        help="Which class that is about.",
    )
    return mask & outcome_mask(outcome or "all", numbers, subject.clusters, subject.matched, None if of == _ANY else of)


@lru_cache(maxsize=8)
def _found(dataset: ImageDataset, _: int, text: str) -> NDArray[np.int64]:
    return search_paths(dataset, text)


# ---- map


def _show_map(subject: Subject, method: str, by: tuple[str, Colouring], shown: Mask, visible: Mask) -> str | None:
    """The map, or another one while it is not there; returns which."""
    # What goes on stands below the map, so that the map stays where it is when it ends.
    above, below = st.container(), st.container()
    with below:
        drawn = _available(subject, method)
    if drawn is None:
        return None
    state = exploring()
    rows = None if state.choice is None else subject.rows_of(np.sort(state.choice.ids))
    chosen = None
    if rows is not None:
        chosen = np.zeros(len(subject.ids), np.bool_)
        chosen[rows] = True
    focus = None
    if state.focus is not None and len(row := subject.rows_of(np.array([state.focus]))):
        focus = Focus(int(row[0]), state.focus_moves, state.turn)
    events = MapEvents(
        region=partial(take_region, subject, drawn, visible),
        clicked=open_image,
        hidden=partial(_take_hidden, by[0]),
        cleared=clear_choice,
    )
    with above:
        scatter_map(
            subject,
            drawn,
            by,
            key="explore-map",
            events=events,
            marked=Marked(None if shown.all() else shown, chosen, state.hidden.get(by[0], []), focus),
        )
    show_caption(
        "Drag to move, wheel to zoom, Shift and drag to choose with a lasso, Alt and drag with a box, click to open. "
        "Keys on the map: arrows, + −, 0, L, B, P, Enter, Esc."  # noqa: RUF001
    )
    return drawn


def _available(subject: Subject, method: str) -> str | None:
    """The map that can be shown now: the one asked for, or PCA, while the other is made if it is wanted."""
    if subject.places(method) is not None:
        return method
    key = f"map-{subject.kind}-{subject.name}-{subject.layout}-{method}"
    title = f"{METHODS[method]} map"
    start = partial(begin, key, title, partial(subject.draw, method))
    known = work(key)
    if known is None and (method == "pca" or len(subject.ids) <= _AT_ONCE):
        start()
    if watch(key) is None:
        if subject.places(method) is not None:
            return method
        st.button(f"Compute the {title} of {len(subject.ids):,} images", on_click=start, type="primary")
    if method == "pca":
        return None
    if subject.places("pca") is None:
        instead = f"map-{subject.kind}-{subject.name}-{subject.layout}-pca"
        with st.spinner("Drawing the PCA map"):
            begin(instead, "PCA map", partial(subject.draw, "pca")).wait()
    if subject.places("pca") is None:
        return None
    show_caption(f"Meanwhile this is the PCA map. The {title} takes its place when it is ready.")
    return "pca"


def take_region(subject: Subject, method: str, visible: Mask, corners: list[list[float]], more: bool) -> None:
    """Choose the visible images inside a line drawn on a map, or add them to the choice."""
    places = subject.places(method)
    if places is None:
        return
    ids = subject.ids[inside_polygon(places, corners) & visible]
    before = exploring().choice
    if more and before is not None:
        ids = np.union1d(before.ids, ids)
    choose(ids, "chosen on the map")


def _take_hidden(by: str, values: list[int]) -> None:
    exploring().hidden[by] = values
    exploring().pages.clear()


# ---- gallery


def _show_gallery(subject: Subject, visible: Mask) -> None:
    choice = exploring().choice
    rows = np.flatnonzero(visible)
    if choice is not None:
        places = subject.rows_of(choice.ids)
        rows = places[visible[places]]
    heading, button = st.columns([3, 1], vertical_alignment="center")
    with heading:
        of_all = f" of {len(subject.ids):,}" if len(rows) < len(subject.ids) else ""
        show_caption(f"{len(rows):,}{of_all} images{'' if choice is None else f' {choice.title}'}")
    if choice is not None:
        with st.container(horizontal=True):
            show_label_popover(subject, subject.ids[rows], choice.title, key="explore-label")
            if isinstance(subject, RunSubject):
                _show_moving(subject, subject.ids[rows])
        button.button("Clear", on_click=clear_choice, width="stretch", help="Choose nothing (Esc on the map).")
    if choice is None or not choice.is_ordered:
        orders = subject.orders()
        remembered("explore-order", orders[0], orders)
        order = st.segmented_control(
            "Order",
            orders,
            key="explore-order",
            required=True,
            label_visibility="collapsed",
            on_change=turn_page,
            args=("explore", 0),
            help="Sure: by confidence. Typical: in the dense middle of its cluster. Odd: far from all others.",
        )
        rows = subject.ordered(rows, order or orders[0])
    paged_gallery(subject, rows, name="explore", columns=4, height=_GALLERY_HEIGHT)


def _show_moving(subject: RunSubject, ids: NDArray[np.int64]) -> None:
    """Put all images that are chosen and shown into one cluster."""
    with st.popover("Move to …", icon=":material/move_item:", disabled=not len(ids), help="Move to a cluster."):
        target = st.selectbox("Cluster", subject.numbers, format_func=subject.cluster_text, key="explore-target")
        st.button(f"Move {len(ids):,} images", type="primary", on_click=move, args=(subject, ids.tolist(), target))
        show_history(subject)
