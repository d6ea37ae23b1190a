"""What a run that learned from labels does otherwise than its parent: images that moved, labels that are followed."""

from __future__ import annotations

import streamlit as st

from app.components.moves import show_move
from app.components.plain import show_caption, show_error
from app.exploring.opened import annotations_of, open_run
from app.exploring.subject import RunSubject
from app.labelling.improving import Changes, changes_between
from app.pages import go_to
from app.state.exploring import fill_box
from app.state.selection import choose, selection
from crlc.errors import CrlcError
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

_MOVES = 8


def show_what_changed(workspace: Workspace, parent: str, child: str) -> None:
    """Two runs, the second of which goes on from the first."""
    runs = Runs(workspace)
    try:
        status = runs.open(child).status()
        before, after = open_run(workspace, runs.open(parent)), open_run(workspace, runs.open(child))
        changes = changes_between(before, after, annotations_of(before.dataset))
    except CrlcError as error:
        show_error(str(error))
        return
    if status["state"] != "finished":
        show_caption("The new run is not finished: this is its newest result. Resume it on the Train page.")
    _show_summary(changes)
    _show_ways_on(before, after)
    if not changes.moves:
        st.info("No image moved: the clusters agree with your labels already.")
    for move in changes.moves[:_MOVES]:
        show_move(before, after, move)
    rest = changes.moves[_MOVES:]
    if rest:
        images = sum(len(move.ids) for move in rest)
        show_caption(f"{len(rest):,} smaller moves with {images:,} images are not shown; the Runs page has them all.")


def _show_summary(changes: Changes) -> None:
    moved = len(changes.comparison.moved_ids)
    cells = (
        ("Moved", f"{moved:,} images", "Images that are in another cluster than before."),
        ("Stayed", f"{changes.comparison.same_share:.1%}", "Of the images that both runs have."),
        (
            "Labels followed",
            f"{changes.followed:,} of {changes.labels:,}",
            "Labelled images that lie in the cluster with their name now.",
        ),
        ("Followed before", f"{changes.followed_before:,} of {changes.labels:,}", "The same for the run before."),
    )
    for column, (label, value, text) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(label, value, help=text)


def _show_ways_on(before: RunSubject, after: RunSubject) -> None:
    is_here = selection().run == after.name
    with st.container(horizontal=True):
        if not is_here and st.button(
            "Go on with the new run", type="primary", key="use-child", help="All pages then show it. This one is kept."
        ):
            choose(after.dataset.name, after.name)
            st.rerun()
        if st.button("Open it in Explore", key="explore-child", icon=":material/bubble_chart:"):
            choose(after.dataset.name, after.name)
            go_to("explore")
        if st.button("Compare in Runs", key="compare-child", icon=":material/stacked_line_chart:"):
            choose(after.dataset.name, after.name)
            fill_box("compare-with", before.name)
            go_to("runs")
