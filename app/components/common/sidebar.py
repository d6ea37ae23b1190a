"""Sidebar of every page: links, the current dataset and run, and what is in progress."""

from __future__ import annotations

import streamlit as st

from app.background.imports import list_imports
from app.background.tasks import dismiss_task
from app.components.common.activity import find_own_finished_imports, show_activity
from app.components.common.keyboard import show_keyboard_button
from app.components.common.safe_text import show_error, show_warning
from app.navigation import get_page, show_page_links
from app.state import selection
from app.state.notices import forget_watched_tasks, get_import_notice, is_started_here, set_import_notice
from app.view_models.run_table import list_runs
from crlc.workspace import Workspace


def show_sidebar(page_title: str = "") -> None:
    """Show the sidebar, and set the title of the tab. Call it before the page, which needs the selection.

    Args:
        page_title: title of the current page.
    """
    workspace = Workspace()
    lines = {line.id: line for line in list_runs(workspace)}
    names = workspace.list_dataset_names()
    chosen = selection.sync_selection(names, {line.id: line.dataset for line in lines.values()})
    if page_title != get_page("start").title:
        forget_watched_tasks()
        _show_finished_imports(workspace)
    missing = selection.get_missing_name()
    if missing is not None:
        shown = lines[chosen.run].unique_title if chosen.run in lines else chosen.dataset
        instead = "" if shown is None else f" Showing {shown} instead."
        show_warning(f"This link opens the {missing}, which does not exist: it was deleted or renamed.{instead}")
    with st.sidebar:
        show_page_links()
        if names:
            st.selectbox(
                "Dataset",
                names,
                key=selection.DATASET_WIDGET,
                on_change=selection.apply_dataset_widget,
                help="Dataset shown on every page. Import more on the Start page.",
            )
            runs = [line.id for line in reversed(lines.values()) if line.dataset == chosen.dataset]
            st.selectbox(
                "Run",
                [*runs, selection.NO_RUN],
                key=selection.RUN_WIDGET,
                format_func=lambda run: lines[run].unique_title if run in lines else "Untrained preview",
                on_change=selection.apply_run_widget,
                help="Run shown on every page, the newest first.",
            )
        show_activity(workspace, page_title, notice=get_import_notice())
        show_keyboard_button()


def _show_finished_imports(workspace: Workspace) -> None:
    """Show how the imports ended that this session has started; the Start page shows those that failed until then."""
    for key, outcome in find_own_finished_imports(workspace).items():
        dismiss_task(key)
        set_import_notice(outcome.text)
    for key, task in list_imports(workspace).items():
        if not task.is_running and is_started_here(key) and task.error is not None:
            show_error(task.error)
