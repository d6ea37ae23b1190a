"""Duplicates page: decide group by group which images to keep; the others are excluded, and files are never touched."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial

import streamlit as st

from app.background.duplicates import build_search_key, get_duplicate_sets, start_search
from app.background.tasks import get_task
from app.components.common.current_view import show_no_datasets
from app.components.common.fragments import make_fragment
from app.components.common.heading import show_heading
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_done, show_error
from app.components.datasets.duplicate_desk import show_duplicate_desk
from app.state.current import open_current_dataset
from app.state.duplicates import KIND_WIDGET, get_duplicate_session
from app.state.widgets import restore_widget_value
from app.view_models.duplicate_session import DuplicateSession, build_desk_data
from app.view_models.view_cache import open_annotations
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.services.duplicate_review import DuplicateSet, find_undecided, write_duplicate_list
from crlc.workspace import Workspace

_NEAR, _EXACT = "near", "exact"
_KIND_TITLES = {_NEAR: "Identical and near", _EXACT: "Identical files"}
_MAX_SHOWN_GROUPS = 2000
"""Maximum number of groups on the page, the largest ones: each takes about 500 bytes of every answer of the server."""


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    show_heading("duplicates")
    try:
        dataset = open_current_dataset(workspace)
        if dataset is None:
            show_no_datasets()
            return
        if not dataset.summarize().complete:
            show_caption("The import is not finished. Duplicates can be searched when it is.")
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            exact = _show_kind_choice() == _EXACT
            sets = get_duplicate_sets(dataset, exact=exact)
            if sets:
                show_caption(_describe(sets))
        if sets is None:
            _show_search(dataset, exact=exact)
        elif not sets:
            show_done("No identical files." if exact else "No duplicates: all images are different.")
        else:
            _show_review(dataset, sets[:_MAX_SHOWN_GROUPS])
    except CrlcError as error:
        show_error(str(error))


def _show_kind_choice() -> str:
    restore_widget_value(KIND_WIDGET, _NEAR, list(_KIND_TITLES))
    kind = st.segmented_control(
        "Duplicates to show",
        list(_KIND_TITLES),
        key=KIND_WIDGET,
        format_func=_KIND_TITLES.__getitem__,
        required=True,
        label_visibility="collapsed",
        help="Near duplicates are resized, recompressed or slightly changed copies, found by a perceptual hash.",
    )
    return kind or _NEAR


def _describe(sets: Sequence[DuplicateSet]) -> str:
    redundant = format_count(sum(len(one.images) - 1 for one in sets), "redundant image")
    shown = f" The {_MAX_SHOWN_GROUPS:,} largest are shown." if len(sets) > _MAX_SHOWN_GROUPS else ""
    return (
        f"{format_count(len(sets), 'group')}, {redundant}.{shown} Excluded images are left out of training and "
        "exports; your files are not touched."
    )


def _show_search(dataset: ImageDataset, *, exact: bool) -> None:
    key = build_search_key(dataset, exact=exact)
    found = get_task(key)
    if found is None:
        start_search(dataset, exact=exact)
    elif found.is_cancelled and not found.is_running:
        show_caption("The search was cancelled.")
        st.button("Search for duplicates", key="search-duplicates", on_click=_restart_search, args=(dataset, exact))
        return
    show_task(key)


def _restart_search(dataset: ImageDataset, exact: bool) -> None:
    start_search(dataset, exact=exact)


@make_fragment
def _show_review(dataset: ImageDataset, sets: Sequence[DuplicateSet]) -> None:
    """Show the groups; a decision redraws only them."""
    session, annotations = get_duplicate_session(dataset.name), open_annotations(dataset)
    state = annotations.refresh()
    undecided = find_undecided(dataset, state, sets)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Accept {format_count(len(undecided), 'proposal')}",
            key="exclude-all-duplicates",
            disabled=not undecided,
            on_click=_exclude_all,
            args=(session, dataset, sets),
            help="Keeps the largest, sharpest image of every undecided group and excludes the others. Z undoes it.",
        )
        st.download_button(
            "Download list",
            data=partial(_build_list, dataset, sets),
            file_name=f"{dataset.name}-duplicates.csv",
            mime="text/csv",
            key="download-duplicates",
            on_click="ignore",
            help="CSV with the action of each file, keep or move, for a file manager or script of your choice.",
        )
    show_duplicate_desk(
        build_desk_data(dataset, state, sets, session),
        key=f"duplicate-desk-{dataset.name}",
        decided=partial(_apply, session, dataset, sets),
    )


def _apply(session: DuplicateSession, dataset: ImageDataset, sets: Sequence[DuplicateSet], value: object) -> None:
    session.apply(value, dataset, open_annotations(dataset), sets)


def _exclude_all(session: DuplicateSession, dataset: ImageDataset, sets: Sequence[DuplicateSet]) -> None:
    session.exclude_all(dataset, open_annotations(dataset), sets)


def _build_list(dataset: ImageDataset, sets: Sequence[DuplicateSet]) -> bytes:
    text = io.StringIO()
    write_duplicate_list(dataset, open_annotations(dataset).refresh(), sets, text)
    return text.getvalue().encode()
