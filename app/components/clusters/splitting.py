"""Split of a cluster: its form, a preview of the parts, and the parts beside each other after it."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app.components.clusters.cards import show_cards
from app.components.clusters.editing import apply_edit, open_editor
from app.components.common.metadata_line import Fact, show_facts
from app.components.common.safe_text import show_error
from app.components.gallery.thumbnails import show_thumbnails
from app.state.clusters import SplitPreview, get_clusters_state, set_previewing, show_parts
from app.state.exploring import get_explore_state, open_cluster
from app.state.widgets import set_widget_value
from app.view_models.cluster_view import MOST_TYPICAL, RunView
from crlc.analysis import merge_split
from crlc.annotations.store import HistoryEntry
from crlc.errors import CrlcError
from crlc.formatting import format_count

_MAX_PARTS = 8
_PARTS_WIDGET = "split-parts"
_IMAGES_PER_PART = 12


def show_split_form(view: RunView, size: int) -> int:
    """Show the number of parts, and the button that shows or hides their preview.

    Args:
        view: the run.
        size: number of images of the cluster.

    Returns:
        The number of parts.
    """
    one, two = st.columns([1.2, 1], vertical_alignment="bottom")
    parts = one.number_input(
        "Split into",
        2,
        _MAX_PARTS,
        key=_PARTS_WIDGET,
        help="Splits the cluster by the features of its images. The largest part keeps the number and name.",
    )
    is_previewing = get_clusters_state(view.name).is_previewing
    two.button(
        "Hide preview" if is_previewing else "Preview split",
        key="preview-split",
        on_click=set_previewing,
        args=(not is_previewing,),
        disabled=size < parts and not is_previewing,
        width="stretch",
    )
    return int(parts)


def open_split_preview(cluster: int) -> None:
    """Open a cluster with the preview of its two parts (callback of a button)."""
    open_cluster(cluster)
    show_parts(())
    set_widget_value(_PARTS_WIDGET, 2)
    set_previewing(True)


def show_split_preview(view: RunView, number: int, parts: int) -> None:
    """Show the parts into which a cluster would be split, and the button that splits it.

    Args:
        view: the run.
        number: the cluster.
        parts: number of parts.
    """
    try:
        preview = _load_preview(view, number, parts)
    except CrlcError as error:
        show_error(str(error))
        return
    with st.container(border=True, key="split-preview"):
        with st.container(horizontal=True, vertical_alignment="center"):
            show_facts(
                [Fact("Nothing is changed yet.", "The clusters stay as they are until you split the cluster.")],
                f"Preview: {view.format_cluster(number)} in {parts} parts",
            )
            st.button("Split cluster", key="split-cluster", type="primary", on_click=_split, args=(view, preview))
            st.button("Cancel", key="cancel-split", on_click=set_previewing, args=(False,))
        for index, ids in enumerate(preview.parts):
            rows = view.find_rows(np.sort(ids))
            kept = f"keeps the number {number}" if index == 0 else "becomes a new cluster"
            show_facts([Fact(kept, "Undo reverts the split.")], f"Part {index + 1}: {format_count(len(ids), 'image')}")
            typical = view.sort_rows(rows, MOST_TYPICAL)[:_IMAGES_PER_PART]
            show_thumbnails(view, typical, key=f"split-part-{index}", columns=_IMAGES_PER_PART)


def show_split_parts(view: RunView, parts: tuple[int, ...]) -> None:
    """Show the clusters that a split made, beside each other."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All clusters", key="all-clusters", icon=":material/arrow_back:", on_click=show_parts, args=((),))
        text = "Name the parts, or undo the split."
        show_facts([Fact(text, "Undo is at the top of the page.")], f"{len(parts)} parts of cluster {parts[0]}")
    show_cards(view, parts)


def _load_preview(view: RunView, number: int, parts: int) -> SplitPreview:
    state = get_clusters_state(view.name)
    known = state.preview
    if known is None or (known.view_version, known.cluster, len(known.parts)) != (view.version, number, parts):
        members = np.flatnonzero(view.clusters == number)
        found = merge_split.split_cluster(view.analysis.z[members], parts)
        state.preview = SplitPreview(
            view.version, number, tuple(view.ids[members[found == part]] for part in range(parts))
        )
    assert state.preview is not None
    return state.preview


def _split(view: RunView, preview: SplitPreview) -> None:
    """Store the split that the preview shows, and show its parts."""
    editor = open_editor(view)
    made: list[int] = []

    def do() -> HistoryEntry | None:
        now = editor.read_current()
        made[:] = [preview.cluster, *range(now.first_new, now.first_new + len(preview.parts) - 1)]
        return editor.split(preview.cluster, [part.tolist() for part in preview.parts])

    apply_edit(do)
    if get_explore_state().problem is None:
        show_parts(tuple(made))
        open_cluster(None)
