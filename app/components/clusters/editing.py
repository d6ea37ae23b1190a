"""Cluster edits from a page, with undo and redo; an edit is reported as saved once it is on disk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.common.safe_text import show_caption, show_error
from app.state.exploring import get_explore_state, record_edit, set_level
from app.view_models.cluster_levels import load_levels
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.view_cache import open_annotations
from crlc.annotations.store import HistoryEntry
from crlc.clusters.clustering import ClusterEditor
from crlc.clusters.levels import apply_level
from crlc.errors import CrlcError
from crlc.paths import to_printable

_TITLE_CHARACTERS = 40


def open_editor(view: RunView) -> ClusterEditor:
    """Return the editor of the clusters of a run."""
    return ClusterEditor(open_annotations(view.dataset), view.analysis.clustering, view.cluster_names)


def apply_edit(do: Callable[[], HistoryEntry | None]) -> None:
    """Apply an edit, and store the message about it for the page."""
    state = get_explore_state()
    state.saved = state.problem = None
    try:
        entry = do()
    except CrlcError as error:
        record_edit(None)
        state.problem = str(error)
        return
    record_edit(None if entry is None else entry.id)
    state.saved = "No change needed."
    if entry is not None:
        state.saved = f"Saved {_format_clock(entry.time)}: {to_printable(entry.title)}"
    state.picked_ids, state.clusters_to_merge = [], []


def rename_cluster(view: RunView, cluster: int, text: str) -> None:
    """Name a cluster; an empty text removes the name."""
    apply_edit(lambda: open_editor(view).set_name(cluster, text.strip() or None))


def merge_clusters(view: RunView, clusters: list[int]) -> None:
    """Merge several clusters into one."""
    apply_edit(lambda: open_editor(view).merge(sorted(clusters)))


def use_level(view: ClusterView, level: int) -> None:
    """Make a level the clusters of a run."""
    assert isinstance(view, RunView)
    annotations = open_annotations(view.dataset)
    apply_edit(lambda: apply_level(annotations, view.analysis.clustering, load_levels(view), level))
    if get_explore_state().problem is None:
        set_level(None)


def move_images(view: RunView, ids: list[int], cluster: int) -> None:
    """Move images to another cluster."""
    apply_edit(lambda: open_editor(view).move(ids, cluster))


def undo_edit(view: ClusterView, entry_id: int) -> None:
    """Undo one edit, unless another one was recorded since."""
    _undo_or_redo(view, "undo", entry_id)


def _undo_or_redo(view: ClusterView, kind: str, only: int | None = None) -> None:
    annotations = open_annotations(view.dataset)

    def do() -> HistoryEntry:
        return annotations.undo(only=only) if kind == "undo" else annotations.redo()

    state = get_explore_state()
    state.saved = state.problem = None
    try:
        entry = do()
    except CrlcError as error:
        record_edit(None)
        state.problem = str(error)
        return
    record_edit(None)
    state.saved = f"{'Undone' if kind == 'undo' else 'Redone'}: {to_printable(entry.title)}"


def show_history(view: ClusterView) -> None:
    """Show the undo and redo buttons, and the last change."""
    message, undo, redo = st.columns([4, 1, 1], vertical_alignment="center")
    undoable = show_undo(view, undo, redo)
    state = get_explore_state()
    with message:
        if state.problem is not None:
            show_error(state.problem)
        elif state.saved is not None:
            show_caption(state.saved)
        elif undoable is not None:
            title = to_printable(undoable.title)
            show_caption(
                f"Last change: {title if len(title) <= _TITLE_CHARACTERS else title[:_TITLE_CHARACTERS] + '…'}"
            )


def show_undo(view: ClusterView, undo: DeltaGenerator, redo: DeltaGenerator) -> HistoryEntry | None:
    """Show the undo and redo buttons.

    Returns:
        the change that the undo button would undo; `None` if there is none.
    """
    history = open_annotations(view.dataset).read_history(1)
    undoable = next((entry for entry in history if not entry.undone), None)
    redoable = next((entry for entry in history if entry.undone), None)
    for column, kind, entry in ((undo, "undo", undoable), (redo, "redo", redoable)):
        column.button(
            kind.capitalize(),
            key=f"{kind}-edit",
            icon=f":material/{kind}:",
            disabled=entry is None,
            on_click=_undo_or_redo,
            args=(view, kind),
            width="stretch",
            help="Undoes the last change to labels or clusters." if kind == "undo" else "Reapplies the undone change.",
        )
    return undoable


def _format_clock(time: str) -> str:
    return f"{datetime.fromisoformat(time).astimezone():%H:%M:%S}"
