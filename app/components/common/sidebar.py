"""Sidebar of every page: links, the current dataset and run, and the training runs in progress; the tab's title."""

from __future__ import annotations

import streamlit as st

from app.background.imports import ImportOutcome, list_imports
from app.background.tasks import dismiss_task
from app.components.common.keyboard import show_keyboard_button
from app.components.common.safe_text import show_caption, show_error, show_warning
from app.navigation import get_page, link_to, show_page_links
from app.state import selection
from app.state.notices import forget_watched_tasks, is_started_here, pop_import_notice, set_import_notice
from app.view_models.job_titles import describe_job
from app.view_models.run_table import list_runs
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.shared_queue import get_queue
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_POLL_SECONDS = 2.0


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
    notice = pop_import_notice()
    if notice is not None:
        st.toast(notice, icon=":material/check_circle:", duration="long")
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
        _show_training_activity(workspace, page_title)
        show_keyboard_button()


def _show_finished_imports(workspace: Workspace) -> None:
    """Show how the imports ended that this session has started; the Start page shows those that failed until then."""
    for key, task in list_imports(workspace).items():
        if task.is_running or not is_started_here(key):
            continue
        if isinstance(task.result, ImportOutcome):
            dismiss_task(key)
            set_import_notice(task.result.text)
        elif task.error is not None:
            show_error(task.error)


def _show_training_activity(workspace: Workspace, page_title: str) -> None:
    """Show the training runs in progress; polled only while there are some."""
    busy = bool(_list_active_jobs(workspace))
    st.fragment(_show_active_jobs, run_every=_POLL_SECONDS if busy else None)(page_title)


def _show_active_jobs(page_title: str) -> None:
    workspace = Workspace()
    jobs = _list_active_jobs(workspace)
    running = [job for job in jobs if job.is_running]
    waiting = len(jobs) - len(running)
    _set_tab_title(page_title, None if not running else _read_progress(workspace, running[0]))
    with st.container(height=96, border=False):  # the height is fixed, so that nothing below moves
        if not jobs:
            return
        entries = {entry.id: entry for entry in list_runs(workspace)}
        words = [f"Training {describe_job(job, entries)}" for job in running]
        show_caption(", ".join(words + ([f"{waiting} queued"] if waiting else [])))
        link_to("train", "Show training")


def _set_tab_title(page_title: str, progress: float | None) -> None:
    words = [] if progress is None else [f"{progress:.0%}"]
    st.set_page_config(page_title=" · ".join([*words, *filter(None, [page_title]), "CRLC Studio"]))


def _read_progress(workspace: Workspace, job: Job) -> float:
    """Return the finished fraction of the steps of a run; 0 if it is unknown."""
    try:
        status = None if job.run is None else RunStore(workspace).open(job.run).read_status()
    except CrlcError:
        return 0.0  # the Train page shows this error
    return 0.0 if status is None or not status.steps else min(1.0, status.step / status.steps)


def _list_active_jobs(workspace: Workspace) -> list[Job]:
    try:
        return [job for job in get_queue(workspace).read_jobs() if not job.is_final]
    except CrlcError:
        return []  # the Train page shows this error
