"""Imports and training runs in progress: their list in the sidebar, and the progress in the title of the tab."""

from __future__ import annotations

import os

import streamlit as st

from app.background.imports import ImportOutcome, find_running_imports, list_imports
from app.background.tasks import BackgroundTask
from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption
from app.navigation import get_page, link_to
from app.state.notices import is_started_here
from app.view_models.job_titles import describe_job
from app.view_models.run_table import list_runs
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.shared_queue import get_queue
from crlc.paths import to_printable
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_POLL_SECONDS = 2.0
_HEIGHT_PIXELS = 96


def show_activity(workspace: Workspace, page_title: str, notice: str | None = None) -> None:
    """Show the imports and training runs in progress, and set the title of the tab; polled only while there are some.

    Args:
        workspace: workspace of the imports and runs.
        page_title: title of the current page.
        notice: how the last import has ended. In a toast, it would lie over the controls of the page.
    """
    is_busy = bool(_list_active_jobs(workspace) or find_running_imports(workspace))
    make_fragment(_show_activity, run_every=_POLL_SECONDS if is_busy else None)(page_title, notice)


def find_own_finished_imports(workspace: Workspace) -> dict[str, ImportOutcome]:
    """Return the outcomes of the imports that this session has started and not yet shown as finished, by key."""
    return {
        key: task.result
        for key, task in list_imports(workspace).items()
        if not task.is_running and is_started_here(key) and isinstance(task.result, ImportOutcome)
    }


def _show_activity(page_title: str, notice: str | None) -> None:
    workspace = Workspace()
    if page_title != get_page("start").title and find_own_finished_imports(workspace):
        st.rerun()  # the page then shows the notice; no other part of it may have a reason to run again
    imports, jobs = find_running_imports(workspace), _list_active_jobs(workspace)
    running = [job for job in jobs if job.is_running]
    # The user waits for an import: training continues without attention.
    shares = [_read_import_progress(task) for task in imports.values()]
    shares += [_read_training_progress(workspace, job) for job in running]
    _set_tab_title(page_title, shares[0] if shares else None)
    with st.container(height=_HEIGHT_PIXELS, border=False):  # the height is fixed, so that nothing below moves
        for source, task in imports.items():
            name = to_printable(os.path.basename(source.rstrip("/\\")) or source)
            show_caption(f"Importing {name}: {_read_import_progress(task):.0%}")
        if notice is not None:
            show_caption(notice)
        if imports:
            link_to("start", "Show import")
        if jobs:
            entries = {entry.id: entry for entry in list_runs(workspace)}
            words = [f"Training {describe_job(job, entries)}" for job in running]
            waiting = len(jobs) - len(running)
            show_caption(", ".join(words + ([f"{waiting} queued"] if waiting else [])))
            link_to("train", "Show training")


def _set_tab_title(page_title: str, progress: float | None) -> None:
    words = [] if progress is None else [f"{progress:.0%}"]
    st.set_page_config(page_title=" · ".join([*words, *filter(None, [page_title]), "CRLC Studio"]))


def _read_import_progress(task: BackgroundTask) -> float:
    """Return the finished fraction of an import; 0 while its files are listed."""
    progress = task.progress
    return 0.0 if progress is None or not progress.total else min(1.0, progress.done / progress.total)


def _read_training_progress(workspace: Workspace, job: Job) -> float:
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
