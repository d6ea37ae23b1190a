"""Edits of clusters from a page: done, said to be saved only once they are on the disk, undone, redone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.plain import show_caption, show_error
from app.exploring.opened import annotations_of
from app.exploring.subject import RunSubject, Subject
from app.state.exploring import exploring
from crlc.analysis.splitting import split_by_features
from crlc.errors import CrlcError
from crlc.names import printable
from crlc.workspace.annotations import Entry
from crlc.workspace.clusterings import ClusterEditor

_SHORT = 40


def editor_of(subject: RunSubject) -> ClusterEditor:
    """What edits the clusters of a run."""
    return ClusterEditor(annotations_of(subject.dataset), subject.analysis.clustering)


def edit(do: Callable[[], Entry | None]) -> None:
    """Do something to the clusters, and remember what to say of it."""
    state = exploring()
    state.saved = state.problem = None
    try:
        entry = do()
    except CrlcError as error:
        state.problem = str(error)
        return
    state.saved = "Nothing to change." if entry is None else f"Saved {_clock(entry.time)}: {printable(entry.title)}"
    state.picks, state.merging = [], []


def rename(subject: RunSubject, cluster: int, text: str) -> None:
    """Give a cluster a name; an empty one takes its name away."""
    edit(lambda: editor_of(subject).name(cluster, text.strip() or None))


def merge(subject: RunSubject, clusters: list[int]) -> None:
    """Make one cluster of several."""
    edit(lambda: editor_of(subject).merge(sorted(clusters)))


def split(subject: RunSubject, cluster: int, parts: int) -> None:
    """Make several clusters of one, by the features of its images."""

    def do() -> Entry | None:
        editor, analysis = editor_of(subject), subject.analysis
        now = editor.current()
        members = now.members(cluster)
        found = split_by_features(analysis.all_z[analysis.clustering.rows[members]], parts)
        return editor.split(cluster, [now.ids[members[found == part]].tolist() for part in range(parts)])

    edit(do)


def move(subject: RunSubject, ids: list[int], cluster: int) -> None:
    """Put images into another cluster."""
    edit(lambda: editor_of(subject).move(ids, cluster))


def _step(subject: Subject, kind: str) -> None:
    annotations = annotations_of(subject.dataset)

    def do() -> Entry:
        return annotations.undo() if kind == "undo" else annotations.redo()

    state = exploring()
    state.saved = state.problem = None
    try:
        entry = do()
    except CrlcError as error:
        state.problem = str(error)
        return
    state.saved = f"{'Undone' if kind == 'undo' else 'Done again'}: {printable(entry.title)}"


def show_history(subject: Subject) -> None:
    """Undo and redo with what they are about, and what was saved last."""
    said, undo, redo = st.columns([4, 1, 1], vertical_alignment="center")
    undoable = show_undo(subject, undo, redo)
    state = exploring()
    with said:
        if state.problem is not None:
            show_error(state.problem)
        elif state.saved is not None:
            show_caption(state.saved)
        elif undoable is not None:
            title = printable(undoable.title)
            show_caption(f"Last change: {title if len(title) <= _SHORT else title[:_SHORT] + '…'}")


def show_undo(subject: Subject, undo: DeltaGenerator, redo: DeltaGenerator) -> Entry | None:
    """The two buttons; returns what the first would take back."""
    history = annotations_of(subject.dataset).history(1)
    undoable = next((entry for entry in history if not entry.undone), None)
    redoable = next((entry for entry in history if entry.undone), None)
    for place, kind, entry in ((undo, "undo", undoable), (redo, "redo", redoable)):
        place.button(
            kind.capitalize(),
            key=f"{kind}-edit",
            icon=f":material/{kind}:",
            disabled=entry is None,
            on_click=_step,
            args=(subject, kind),
            width="stretch",
        )
    return undoable


def _clock(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone():%H:%M:%S}"
