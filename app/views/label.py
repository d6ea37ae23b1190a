"""Label: one image after the other by keys, or many at once; then a better run made of the labels."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import streamlit as st

from app.components.bulk_label import names_of, show_bulk_label
from app.components.editing import show_undo
from app.components.image_dialog import show_opened
from app.components.improve import is_watching, show_improve
from app.components.label_desk import label_desk
from app.components.label_tools import show_import_popover, show_names_popover
from app.components.plain import show_caption, show_error
from app.components.subjects import subject_of_page
from app.components.tiles import paged_gallery
from app.components.waiting import need_quality
from app.components.what_changed import show_what_changed
from app.exploring.opened import annotations_of
from app.exploring.subject import METHODS, RunSubject, Subject
from app.labelling.desk import read_work
from app.labelling.improving import ENOUGH, family_of
from app.labelling.items import Items, states_of
from app.labelling.sources import (
    CLUSTER,
    FIRST,
    SELECTION,
    SUGGESTED,
    Row,
    doubtful_order,
    of_cluster,
    of_selection,
    refilled,
    says_the_same,
    suggested,
)
from app.pages import go_to, link_to
from app.run_lines import run_lines
from app.state.exploring import box, clear_choice, exploring, remembered
from app.state.labelling import ALL_AT_ONCE, MODE, ONE_BY_ONE, SOURCE, WHAT_CHANGED, Labelling, desk_key, labelling
from crlc.errors import CrlcError
from crlc.workspace import Workspace

_LOOK_SECONDS = 1.0


def render() -> None:
    """The page."""
    workspace = Workspace()
    subject = subject_of_page(workspace, "label")
    if subject is None:
        return
    exploring(subject.kind, subject.name)
    state = labelling(subject.kind, subject.name)
    if not says_the_same(state.kept, subject):
        state.kept, state.items, state.source = subject, None, None
    assert state.kept is not None
    subject = state.kept
    try:
        waiting = st.empty()  # there with and without a bar: what is below keeps its place and its state
        with waiting.container():
            need_quality(subject)
        waiting.empty()
        family = family_of(run_lines(workspace), subject.name) if isinstance(subject, RunSubject) else None
        if family is not None and not (workspace.root / "runs" / family[1] / "result.json").exists():
            family = None
        watching = isinstance(subject, RunSubject) and is_watching(workspace, subject)
        # One fragment for all of it: a decision draws the desk anew and nothing else of the page.
        st.fragment(_show, run_every=_LOOK_SECONDS if watching else None)(
            workspace, subject, family=family, watching=watching
        )
        drawn = next((method for method in METHODS if subject.places(method) is not None), None)
        show_opened(subject, drawn, partial(go_to, "explore"))
    except CrlcError as error:
        show_error(str(error))


def _show(workspace: Workspace, subject: Subject, *, family: tuple[str, str] | None, watching: bool) -> None:
    try:
        asking, improving = st.columns([3, 2], gap="medium")
        body = st.container()
        with asking:
            mode, source = _ask(subject, has_changes=family is not None)
        with body:
            if mode == WHAT_CHANGED and family is not None:
                show_what_changed(workspace, *family)
            elif mode == ALL_AT_ONCE:
                _show_grid(subject, source)
            else:
                _show_desk(subject, source)
        with asking:
            _show_tools(subject)  # after what the keyboard did: there may be something to undo now
        with improving:
            if isinstance(subject, RunSubject):
                has_child = family is not None and family[0] == subject.name
                show_improve(workspace, subject, has_child=has_child)
                if is_watching(workspace, subject) != watching:
                    st.rerun()  # from now on it is looked at every second, or not any more
            else:
                show_caption("Before training there is no run to improve. Your labels are kept for it: train first.")
                link_to("train", "Go to Train")
    except CrlcError as error:
        show_error(str(error))


def _ask(subject: Subject, *, has_changes: bool) -> tuple[str, str]:
    """How, and which images."""
    one, two = st.columns([5.2 if has_changes else 2.4, 3], vertical_alignment="center")
    modes = [ONE_BY_ONE, ALL_AT_ONCE, *([WHAT_CHANGED] if has_changes else [])]
    remembered(MODE, ONE_BY_ONE, modes)
    mode = one.segmented_control("How", modes, key=MODE, required=True, label_visibility="collapsed", width="stretch")
    choice = exploring().choice
    clusters = np.unique(subject.clusters).tolist()
    sources = [SUGGESTED, *([SELECTION] if choice is not None else []), *(f"{CLUSTER} {number}" for number in clusters)]
    remembered(SOURCE, SUGGESTED, sources)

    def called(source: str) -> str:
        if source == SELECTION and choice is not None:
            return f"Your selection: {len(choice.ids):,} images {choice.title}"
        if source == SUGGESTED:
            return "Suggested images"
        doubt = "least sure" if isinstance(subject, RunSubject) else "odd ones"
        return f"{subject.cluster_text(int(source.split()[1])).capitalize()}: {doubt} first"

    source = two.selectbox(
        "Which images",
        sources,
        key=SOURCE,
        format_func=called,
        label_visibility="collapsed",
        disabled=mode == WHAT_CHANGED,
        help="Suggested images balance doubt, difference and coverage. A selection comes from Explore or Clusters.",
    )
    return mode or ONE_BY_ONE, source or SUGGESTED


def _show_tools(subject: Subject) -> None:
    undo, redo, names, imported = st.columns(4)
    show_undo(subject, undo, redo)
    with names:
        show_names_popover(subject)
    with imported:
        show_import_popover(subject)


# ---- one by one


def _take(subject: Subject, state: Labelling) -> None:
    """Write down what came from the browser; asked twice about the same, it does it once."""
    work = read_work((box(desk_key(subject)) or {}).get("work"))
    if work is not None and state.desk.take(work, annotations_of(subject.dataset)):
        exploring().saved = exploring().problem = None  # what was said of an older change


def _show_desk(subject: Subject, source: str) -> None:
    state = labelling(subject.kind, subject.name)
    _take(subject, state)
    curation = annotations_of(subject.dataset).refresh()
    choice = exploring().choice
    made_of = (source, choice.ids.tobytes() if source == SELECTION and choice is not None else None)
    if state.source != made_of:
        state.source, state.turn, state.desk.at = made_of, uuid4().hex, None
        if source == SELECTION and choice is not None:
            state.row = of_selection(subject, choice.ids, is_ordered=choice.is_ordered)
        elif source.startswith(CLUSTER):
            state.row = of_cluster(subject, int(source.split()[1]))
        else:
            state.row = suggested(subject, curation, state.desk.skipped, FIRST)
    elif source == SUGGESTED:
        refilled(state.row, state.desk.at, subject, curation, state.desk.skipped)
    state.items = state.items or Items(subject)
    if exploring().problem is not None:
        show_error(exploring().problem or "")
    key = desk_key(subject)
    label_desk(_data(subject, state, state.items), key=key, worked=partial(_take, subject, state))


def _data(subject: Subject, state: Labelling, known: Items) -> dict[str, Any]:
    curation = annotations_of(subject.dataset).refresh()
    desk, row = state.desk, state.row
    items = known.of(row.around(desk.at), row.reasons)
    counts = curation.labelled().counts()
    return {
        "place": desk_key(subject),
        "window": desk.window,
        "answered": desk.last,
        "failed": sorted(desk.failed.items()),
        "saved": desk.saved,
        "said": desk.said or exploring().saved,
        "turn": state.turn,
        "order": row.ids,
        "items": items,
        "clusters": known.clusters(items),
        "states": states_of(row.ids, curation, desk.skipped),
        "names": [{"name": name, "count": counts.get(name, 0)} for name in names_of(subject)],
        "enough": ENOUGH,
        "empty": _empty(row),
        "source": f"the first of {row.left + len(row.ids):,}" if row.left else "",
    }


def _empty(row: Row) -> str:
    return "" if row.ids else "There is no image left to suggest: all have a label, or are excluded."


# ---- all at once


def _show_grid(subject: Subject, source: str) -> None:
    state, choice = exploring(), exploring().choice
    if source == SELECTION and choice is not None:
        rows = subject.rows_of(choice.ids)
        if not choice.is_ordered:
            rows = np.sort(rows)
    elif source.startswith(CLUSTER):
        rows = subject.ordered(np.flatnonzero(subject.clusters == int(source.split()[1])), doubtful_order(subject))
    else:
        st.info(
            "Choose which images above: a cluster, or a selection. A selection is made on Explore, with the lasso on "
            "the map (Shift and drag), or of images like one that you opened there."
        )
        link_to("explore", "Go to Explore")
        return
    picks = subject.rows_of(np.sort(np.asarray(state.picks, np.int64))) if state.picks else rows
    show_bulk_label(subject, subject.ids[picks], key="bulk")
    if state.problem is not None:
        show_error(state.problem)
    words, clear = st.columns([5, 1], vertical_alignment="center")
    with words:
        said = f" {state.saved}" if state.saved is not None else ""
        show_caption(
            f"{len(rows):,} images, {len(state.picks):,} picked."
            if state.picks
            else f"{len(rows):,} images. {said or 'Pick some with the box in their corner to label only those.'}"
        )
    if source == SELECTION:
        clear.button("Clear", key="clear-selection", on_click=clear_choice, width="stretch")
    labels = annotations_of(subject.dataset).refresh().labels(subject.ids)

    def caption(row: int) -> str:
        return labels[row] or subject.caption(row)

    paged_gallery(subject, rows, name="label", columns=10, picking=True, caption=caption)
