"""Sidebar of every page: the current dataset and run, and the training runs in progress."""

from __future__ import annotations

import streamlit as st

from app.components.common.keyboard import show_keyboard_button
from app.components.common.safe_text import show_caption
from app.navigation import link_to
from app.state import selection
from app.view_models.run_table import list_runs
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.shared_queue import get_queue
from crlc.workspace import Workspace

_POLL_SECONDS = 2.0


def show_sidebar() -> None:
    """Show the sidebar. Call it before the page, which needs the selection."""
    workspace = Workspace()
    lines = {line.id: line for line in list_runs(workspace)}
    names = workspace.list_dataset_names()
    chosen = selection.sync_selection(names, {line.id: line.dataset for line in lines.values()})
    with st.sidebar:
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
        _show_training_activity(workspace)
        show_keyboard_button()


def _show_training_activity(workspace: Workspace) -> None:
    """Show the training runs in progress; polled only while there are some."""
    busy = bool(_list_active_jobs(workspace))
    st.fragment(_show_active_jobs, run_every=_POLL_SECONDS if busy else None)()


def _show_active_jobs() -> None:
    jobs = _list_active_jobs(Workspace())
    running = [job for job in jobs if job.is_running]
    waiting = len(jobs) - len(running)
    with st.container(height=96, border=False):  # the height is fixed, so that nothing below moves
        if not jobs:
            return
        words = [f"Training {job.title}" for job in running] + ([f"{waiting} queued"] if waiting else [])
        show_caption(" · ".join(words))
        link_to("train", "Show training")


def _list_active_jobs(workspace: Workspace) -> list[Job]:
    try:
        return [job for job in get_queue(workspace).read_jobs() if not job.is_final]
    except CrlcError:
        return []  # the Train page shows this error
