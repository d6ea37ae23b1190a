"""Label page: label images one by one with keys or many at once, then train a run with the labels."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import streamlit as st

from app.components.clusters.editing import show_undo
from app.components.common.current_view import show_current_view
from app.components.common.fragments import make_fragment
from app.components.common.polling import ensure_quality
from app.components.common.safe_text import show_caption, show_error
from app.components.explore.image_dialog import show_image_dialog
from app.components.gallery.tiles import show_paged_gallery
from app.components.labelling.bulk_label import list_names, show_bulk_label
from app.components.labelling.improve import is_improving, show_improve
from app.components.labelling.label_desk import show_label_desk
from app.components.labelling.label_tools import show_import_popover, show_names_popover
from app.components.labelling.what_changed import show_what_changed
from app.navigation import go_to, link_to
from app.state.exploring import clear_selection, get_explore_state, get_picks_among
from app.state.labelling import (
    ALL_AT_ONCE,
    MODE_WIDGET,
    ONE_BY_ONE,
    SOURCE_WIDGET,
    WHAT_CHANGED,
    LabelState,
    build_component_key,
    get_label_state,
)
from app.state.widgets import get_widget_value, restore_widget_value
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.improvement import SUFFICIENT_LABELS
from app.view_models.label_items import LabelItems, list_decision_states
from app.view_models.label_queue import (
    CLUSTER,
    INITIAL_COUNT,
    SELECTION,
    SUGGESTED,
    LabelQueue,
    can_reuse_view,
    get_review_order,
    merge_names,
    queue_cluster,
    queue_selection,
    refill_queue,
    suggest_images,
)
from app.view_models.label_session import parse_batch
from app.view_models.run_comparison import find_comparison_pair
from app.view_models.run_table import list_runs
from app.view_models.view_cache import open_annotations
from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.workspace import Workspace

_POLL_SECONDS = 1.0


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    view = show_current_view(workspace, "label")
    if view is None:
        return
    get_explore_state(view.kind, view.name)
    state = get_label_state(view.kind, view.name)
    if not can_reuse_view(state.initial_view, view):
        state.initial_view, state.items, state.source = view, None, None
    assert state.initial_view is not None
    view = state.initial_view
    try:
        waiting = st.empty()  # always created, so that the elements below keep their state
        with waiting.container():
            ensure_quality(view)
        waiting.empty()
        family = find_comparison_pair(list_runs(workspace), view.name) if isinstance(view, RunView) else None
        if family is not None and not (workspace.root / "runs" / family[1] / "result.json").exists():
            family = None
        watching = isinstance(view, RunView) and is_improving(workspace, view)
        # One fragment for everything: a decision redraws only the labelling component.
        make_fragment(_show, run_every=_POLL_SECONDS if watching else None)(
            workspace, view, family=family, watching=watching
        )
        drawn = next((method for method in MAP_METHODS if view.load_coordinates(method) is not None), None)
        show_image_dialog(view, drawn, partial(go_to, "explore"))
    except CrlcError as error:
        show_error(str(error))


def _show(workspace: Workspace, view: ClusterView, *, family: tuple[str, str] | None, watching: bool) -> None:
    try:
        controls, improving = st.columns([3, 2], gap="medium")
        body = st.container()
        with controls:
            mode, source = _show_controls(view, has_changes=family is not None)
        with body:
            if mode == WHAT_CHANGED and family is not None:
                show_what_changed(workspace, *family)
            elif mode == ALL_AT_ONCE:
                _show_grid(view, source)
            else:
                _show_desk(view, source)
        with controls:
            _show_tools(view)  # after applying the decisions of the keyboard, which Undo can undo
        with improving:
            if isinstance(view, RunView):
                has_child = family is not None and family[0] == view.name
                show_improve(workspace, view, has_child=has_child)
                if is_improving(workspace, view) != watching:
                    st.rerun()  # starts or ends the polling
            else:
                show_caption("No run to improve yet. Train one first; your labels stay saved.")
                link_to("train", "Go to Train")
    except CrlcError as error:
        show_error(str(error))


def _show_controls(view: ClusterView, *, has_changes: bool) -> tuple[str, str]:
    """Show the widgets for the mode and the images; return their values."""
    one, two = st.columns([5.2 if has_changes else 2.4, 3], vertical_alignment="center")
    modes = [ONE_BY_ONE, ALL_AT_ONCE, *([WHAT_CHANGED] if has_changes else [])]
    restore_widget_value(MODE_WIDGET, ONE_BY_ONE, modes)
    mode = one.segmented_control(
        "Mode", modes, key=MODE_WIDGET, required=True, label_visibility="collapsed", width="stretch"
    )
    choice = get_explore_state().selection
    clusters = np.unique(view.clusters).tolist()
    sources = [SUGGESTED, *([SELECTION] if choice is not None else []), *(f"{CLUSTER} {number}" for number in clusters)]
    restore_widget_value(SOURCE_WIDGET, SUGGESTED, sources)

    def format_source(source: str) -> str:
        if source == SELECTION and choice is not None:
            return f"Selection: {format_count(len(choice.ids), 'image')} {choice.title}"
        if source == SUGGESTED:
            return "Suggested images"
        order = get_review_order(view)
        return f"{view.format_cluster(int(source.split()[1])).capitalize()}: {order} first"

    source = two.selectbox(
        "Images to label",
        sources,
        key=SOURCE_WIDGET,
        format_func=format_source,
        label_visibility="collapsed",
        disabled=mode == WHAT_CHANGED,
        help="Sets which images to label. Suggested images balance uncertainty, diversity and coverage. "
        "Make a selection on Explore or Clusters.",
    )
    return mode or ONE_BY_ONE, source or SUGGESTED


def _show_tools(view: ClusterView) -> None:
    undo, redo, names, imported = st.columns(4)
    show_undo(view, undo, redo)
    with names:
        show_names_popover(view)
    with imported:
        show_import_popover(view)


# ---- one by one


def _apply_decisions(view: ClusterView, state: LabelState) -> None:
    """Store the decisions that came from the browser; a decision sent twice is stored once."""
    batch = parse_batch((get_widget_value(build_component_key(view)) or {}).get("work"))
    annotations = open_annotations(view.dataset)
    if batch is not None and state.session.apply(batch, annotations):
        get_explore_state().saved = get_explore_state().problem = None  # messages about older changes
        used = annotations.refresh().to_label_set().count_by_name()
        state.names = merge_names(state.names, {}, [name for name in batch.list_labels() if name in used])


def _show_desk(view: ClusterView, source: str) -> None:
    state = get_label_state(view.kind, view.name)
    _apply_decisions(view, state)
    annotations = open_annotations(view.dataset).refresh()
    choice = get_explore_state().selection
    source_key = (source, choice.ids.tobytes() if source == SELECTION and choice is not None else None)
    if state.source != source_key:
        state.source, state.queue_id, state.session.at = source_key, uuid4().hex, None
        if source == SELECTION and choice is not None:
            state.queue = queue_selection(view, choice.ids, is_ordered=choice.is_ordered)
        elif source.startswith(CLUSTER):
            state.queue = queue_cluster(view, int(source.split()[1]))
        else:
            state.queue = suggest_images(view, annotations, state.session.skipped, INITIAL_COUNT)
    elif source == SUGGESTED:
        refill_queue(state.queue, state.session.at, view, annotations, state.session.skipped)
    state.items = state.items or LabelItems(view)
    if get_explore_state().problem is not None:
        show_error(get_explore_state().problem or "")
    key = build_component_key(view)
    show_label_desk(
        _build_desk_data(view, state, state.items), key=key, on_decision=partial(_apply_decisions, view, state)
    )


def _build_desk_data(view: ClusterView, state: LabelState, known: LabelItems) -> dict[str, Any]:
    annotations = open_annotations(view.dataset).refresh()
    session, queue = state.session, state.queue
    items = known.build_items(queue.list_images_around(session.at), queue.reasons)
    counts = annotations.to_label_set().count_by_name()
    return {
        "key": build_component_key(view),
        "window": session.window,
        "answered": session.last,
        "failed": sorted(session.failed.items()),
        "saved": session.saved_at,
        "message": session.message or get_explore_state().saved,
        "queue": state.queue_id,
        "order": queue.ids,
        "items": items,
        "clusters": known.build_clusters(items),
        "states": list_decision_states(queue.ids, annotations, session.skipped),
        "names": [{"name": name, "count": counts.get(name, 0)} for name in list_names(view)],
        "enough": SUFFICIENT_LABELS,
        "empty": _describe_empty_queue(queue),
        "source": f"first of {queue.omitted + len(queue.ids):,}" if queue.omitted else "",
    }


def _describe_empty_queue(queue: LabelQueue) -> str:
    return "" if queue.ids else "No images left to suggest: all are labelled or excluded."


# ---- all at once


def _show_grid(view: ClusterView, source: str) -> None:
    state, choice = get_explore_state(), get_explore_state().selection
    if source == SELECTION and choice is not None:
        rows = view.find_rows(choice.ids)
        if not choice.is_ordered:
            rows = np.sort(rows)
    elif source.startswith(CLUSTER):
        rows = view.sort_rows(np.flatnonzero(view.clusters == int(source.split()[1])), get_review_order(view))
    else:
        st.info(
            "Select the images to label above: a cluster or a selection. To make a selection, draw a lasso on the map "
            "of the Explore page (Shift + drag)."
        )
        link_to("explore", "Go to Explore")
        return
    picks = get_picks_among(view.ids[rows])
    show_bulk_label(view, np.array(picks, np.int64) if picks else view.ids[rows], key="bulk")
    if state.problem is not None:
        show_error(state.problem)
    words, clear = st.columns([5, 1], vertical_alignment="center")
    with words:
        message = f" {state.saved}" if state.saved is not None else ""
        show_caption(
            f"{format_count(len(rows), 'image')}, {len(picks):,} selected."
            if picks
            else f"{format_count(len(rows), 'image')}. {message or 'Use the checkboxes to label only some of them.'}"
        )
    if source == SELECTION:
        clear.button("Clear selection", key="clear-selection", on_click=clear_selection, width="stretch")
    labels = open_annotations(view.dataset).refresh().get_labels(view.ids)

    def format_caption(row: int) -> str:
        return labels[row] or view.format_caption(row)

    show_paged_gallery(view, rows, name="label", columns=10, picking=True, caption=format_caption)
