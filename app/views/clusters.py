"""Clusters: a card for each, what is in it, and edits that can be undone."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.bulk_label import show_label_popover
from app.components.editing import merge, move, rename, show_history, split
from app.components.facts import Fact, show_facts
from app.components.image_dialog import show_opened
from app.components.plain import show_error
from app.components.subjects import subject_of_page
from app.components.suggested import show_suggestions
from app.components.tiles import paged_gallery, thumbnails
from app.components.waiting import need_quality
from app.exploring.subject import METHODS, RunSubject, Subject
from app.figures.confusion import confusion_figure
from app.pages import go_to
from app.state.exploring import box, exploring, fill_box, open_cluster, remembered, tick_cluster, turn_page
from crlc.errors import CrlcError
from crlc.workspace import Workspace

_CARDS = 12
_COLUMNS = 3
_TYPICAL = 6
_MOST_PARTS = 8
_FEWEST_MERGED = 2
_SORTS = ("number", "size", "least sure first", "most mixed first")


def render() -> None:
    """The page."""
    subject = subject_of_page(Workspace(), "clusters")
    if subject is None:
        return
    state = exploring(subject.kind, subject.name)
    try:
        need_quality(subject)
        if isinstance(subject, RunSubject):
            show_history(subject)
            state.cluster = state.cluster if state.cluster in subject.numbers else None
            if state.cluster is not None:
                _show_cluster(subject, state.cluster)
            else:
                _show_all(subject)
        else:
            _show_cards(subject, _numbers(subject))
        drawn = next((method for method in METHODS if subject.places(method) is not None), None)
        show_opened(subject, drawn, _go_to_map)
    except CrlcError as error:
        show_error(str(error))


def _go_to_map() -> None:
    go_to("explore")


# ---- all clusters


def _show_all(subject: RunSubject) -> None:
    cards, suggestions, *more = st.tabs(
        ["Clusters", "Suggestions", *(["Against the classes"] if subject.classes is not None else [])]
    )
    with cards:
        sorting, merging = st.columns([3, 1], vertical_alignment="center")
        with sorting:
            numbers = _numbers(subject)
        with merging:
            _show_merging(subject)
        _show_cards(subject, numbers)
    with suggestions:
        show_suggestions(subject)
    for tab in more:
        with tab:
            _show_classes(subject)


def _numbers(subject: Subject) -> list[int]:
    """The clusters that have images, in the order asked for; empty ones last."""
    sizes = np.bincount(subject.clusters)
    there = np.flatnonzero(sizes).tolist()
    if not isinstance(subject, RunSubject):
        return there
    remembered("clusters-sort", _SORTS[0], _SORTS)
    sort = st.segmented_control(
        "Order of the clusters",
        _SORTS,
        key="clusters-sort",
        required=True,
        label_visibility="collapsed",
        help="By number, by how many images they have, by mean confidence, or by how mixed they are with another.",
    )
    quality = subject.quality().clusters
    keys: dict[str, NDArray[np.float64]] = {
        "size": -quality.size.astype(np.float64),
        "least sure first": quality.confidence,
        "most mixed first": -np.nan_to_num(quality.closest_mixing),
    }
    if sort in keys:
        there.sort(key=lambda number: keys[sort][number])
    return there + [number for number in subject.numbers if number >= len(sizes) or not sizes[number]]


def _show_merging(subject: RunSubject) -> None:
    """The button for the clusters that are ticked; always there, so that nothing moves when some are."""
    ticked = [number for number in subject.numbers if number in exploring().merging]
    is_enough = len(ticked) >= _FEWEST_MERGED
    st.button(
        f"Merge {len(ticked)} clusters" if is_enough else "Merge ticked",
        type="primary" if is_enough else "secondary",
        disabled=not is_enough,
        on_click=merge,
        args=(subject, ticked),
        width="stretch",
        key="merge-ticked",
        help=", ".join(map(subject.cluster_text, ticked)) if is_enough else "Tick two or more clusters below.",
    )


def _show_cards(subject: Subject, numbers: list[int]) -> None:
    pages = -(-len(numbers) // _CARDS)
    page = min(exploring().pages.get("cards", 0), max(0, pages - 1))
    part = numbers[page * _CARDS : (page + 1) * _CARDS]
    for start in range(0, len(part), _COLUMNS):
        for column, number in zip(st.columns(_COLUMNS), part[start : start + _COLUMNS], strict=False):
            with column.container(border=True, key=f"card-{number}"):
                _show_card(subject, number)
    if pages > 1:
        back, _, on = st.columns([1, 4, 1])
        back.button("Back", disabled=page == 0, on_click=turn_page, args=("cards", page - 1), width="stretch")
        on.button("Next", disabled=page == pages - 1, on_click=turn_page, args=("cards", page + 1), width="stretch")


def _show_card(subject: Subject, number: int) -> None:
    rows = np.flatnonzero(subject.clusters == number)
    show_facts(facts_of(subject, number), subject.cluster_text(number), subject.colour_of(number))
    st.html(thumbnails(subject, subject.ordered(rows, "most typical")[:_TYPICAL], columns=_COLUMNS))
    if not isinstance(subject, RunSubject):
        return
    _show_name_box(subject, number)
    tick, button = st.columns(2)
    # A button: the browser fetches checkboxes late, and shows a grey box until then.
    is_ticked = number in exploring().merging
    tick.button(
        "Merge",
        key=f"tick-{number}",
        icon=f":material/{'check_box' if is_ticked else 'check_box_outline_blank'}:",
        on_click=tick_cluster,
        args=(number,),
        width="stretch",
        help="Tick two or more, then merge them with the button above.",
    )
    button.button("Open", key=f"open-{number}", on_click=open_cluster, args=(number,), width="stretch")


def _show_name_box(subject: RunSubject, number: int, label: str | None = None) -> None:
    key = f"name-{subject.name}-{number}"
    fill_box(key, subject.names.get(number, ""))
    st.text_input(
        label or f"Name of cluster {number}",
        key=key,
        placeholder="name this cluster",
        label_visibility="visible" if label else "collapsed",
        on_change=lambda: rename(subject, number, box(key)),
    )


def facts_of(subject: Subject, number: int) -> list[Fact]:
    """What is said of a cluster in one line."""
    size = int((subject.clusters == number).sum())
    facts = [Fact(f"{size:,} image{'' if size == 1 else 's'}", "How many images are in the cluster.")]
    if not isinstance(subject, RunSubject) or not size:
        return facts
    quality = subject.quality().clusters
    facts += [
        Fact(f"{quality.confidence[number]:.0%} sure", "Mean confidence of the run in these images, at most 100 %."),
        Fact(
            f"{quality.neighbour_agreement[number]:.0%} together",
            "The mean share of an image's nearest neighbours that are in the same cluster: it stands for purity, "
            "which cannot be known without classes.",
        ),
    ]
    closest = int(quality.closest[number])
    if closest >= 0:
        mixing = f"{quality.closest_mixing[number]:.2f}"
        facts.append(
            Fact(
                f"near {subject.cluster_text(closest)} ({mixing})",
                "The cluster it is most mixed with, and how much: 0 not at all, 1 as if the two were one.",
            )
        )
    return facts


# ---- one cluster


def _show_cluster(subject: RunSubject, number: int) -> None:
    back, title = st.columns([1, 6], vertical_alignment="center")
    back.button("All clusters", icon=":material/arrow_back:", on_click=open_cluster, args=(None,))
    with title:
        show_facts(facts_of(subject, number), subject.cluster_text(number), subject.colour_of(number))
    rows = np.flatnonzero(subject.clusters == number)
    with st.container(border=True):
        naming, merging, splitting = st.columns(3, vertical_alignment="bottom")
        with naming:
            _show_name_box(subject, number, "Name")
        with merging:
            _show_merge_with(subject, number)
        with splitting:
            _show_split(subject, number, len(rows))
    orders = subject.orders()
    remembered("cluster-order", orders[0], orders)
    with st.container(horizontal=True, vertical_alignment="center"):
        order = st.segmented_control(
            "Order",
            orders,
            key="cluster-order",
            required=True,
            label_visibility="collapsed",
            on_change=turn_page,
            args=("cluster", 0),
        )
        _show_moving(subject, number)
    paged_gallery(subject, subject.ordered(rows, order or orders[0]), name="cluster", columns=10, picking=True)


def _others(subject: RunSubject, number: int) -> list[int]:
    return [other for other in subject.numbers if other != number]


def _show_merge_with(subject: RunSubject, number: int) -> None:
    others = _others(subject, number)
    if not others:
        return
    closest = (
        int(subject.quality().clusters.closest[number]) if number < len(subject.quality().clusters.closest) else -1
    )
    one, two = st.columns([2, 1], vertical_alignment="bottom")
    other = one.selectbox(
        "Merge with",
        others,
        index=others.index(closest) if closest in others else 0,
        format_func=subject.cluster_text,
        help="The smaller number and its name stay.",
    )
    two.button("Merge", on_click=merge, args=(subject, [number, other]), width="stretch")


def _show_split(subject: RunSubject, number: int, size: int) -> None:
    one, two = st.columns([2, 1], vertical_alignment="bottom")
    parts = one.number_input(
        "Split into", 2, _MOST_PARTS, 2, help="By the features of its images; the largest part keeps number and name."
    )
    two.button("Split", on_click=split, args=(subject, number, int(parts)), disabled=size < parts, width="stretch")


def _show_moving(subject: RunSubject, number: int) -> None:
    """What to do with the images that are picked; always there, so that they stay under the mouse while picking."""
    picks, others = exploring().picks, _others(subject, number)
    target = st.selectbox(
        "Where to move them",
        others,
        format_func=lambda other: f"to {subject.cluster_text(other)}",
        width=180,
        key="move-target",
        label_visibility="collapsed",
        disabled=not others,
    )
    st.button(
        f"Move {len(picks):,} picked",
        key="move-picked",
        type="primary" if picks else "secondary",
        on_click=move,
        args=(subject, picks, target),
        disabled=not picks or not others,
        help="Pick images with the box in their corner; Ctrl and click, or Shift and click for all up to there.",
    )
    show_label_popover(subject, picks, f"picked in {subject.cluster_text(number)}", key="cluster-label")


# ---- classes


def _show_classes(subject: RunSubject) -> None:
    report = subject.analysis.class_report()
    if report is None or subject.classes is None:
        st.info("No class of these images is known.")
        return
    measured = report.agreement
    show_facts(
        [
            Fact(f"{report.images:,} images with a class", "Only these are compared."),
            Fact(f"ACC {measured.acc:.1%}", "Share of images whose cluster is the one matched to their class."),
            Fact(f"NMI {measured.nmi:.3f}", "Normalised mutual information of clusters and classes, from 0 to 1."),
            Fact(f"ARI {measured.ari:.3f}", "Adjusted Rand index: 1 for the same groups, about 0 by chance."),
        ]
    )
    figure = confusion_figure(report, subject.classes[0], subject.cluster_text, dark=st.context.theme.type == "dark")
    st.plotly_chart(figure, key="confusion", config={"displayModeBar": False})
