"""The sidebar, the same on every page: which data set and run, and what is being trained."""

from __future__ import annotations

import streamlit as st

from app.components.keyboard import show_keyboard_button
from app.components.plain import show_caption
from app.pages import link_to
from app.run_lines import run_lines
from app.state import selection
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.shared import queue_of
from crlc.workspace import Workspace

_LOOK_SECONDS = 2.0


def show_sidebar() -> None:
    """Draw it, before the page."""
    workspace = Workspace()
    lines = {line.id: line for line in run_lines(workspace)}
    names = workspace.dataset_names()
    chosen = selection.settle(names, {line.id: line.dataset for line in lines.values()})
    with st.sidebar:
        if names:
            st.selectbox(
                "Data set",
                names,
                key=selection.DATASET_BOX,
                on_change=selection.take_dataset_from_box,
                help="What all pages are about. Bring in more on the Start page.",
            )
            runs = [line.id for line in reversed(lines.values()) if line.dataset == chosen.dataset]
            st.selectbox(
                "Run",
                [*runs, selection.BEFORE_TRAINING],
                key=selection.RUN_BOX,
                format_func=lambda run: lines[run].label if run in lines else "Before training",
                on_change=selection.take_run_from_box,
                help="One training with its results; the newest is first.",
            )
        _show_activity_of(workspace)
        show_keyboard_button()


def _show_activity_of(workspace: Workspace) -> None:
    """What is being trained; looked at again and again only while something is."""
    busy = bool(_unfinished(workspace))
    st.fragment(_show_activity, run_every=_LOOK_SECONDS if busy else None)()


def _show_activity() -> None:
    jobs = _unfinished(Workspace())
    running = [job for job in jobs if job.is_running]
    waiting = len(jobs) - len(running)
    with st.container(height=96, border=False):  # as high with as without: nothing below it moves
        if not jobs:
            return
        words = [f"Training {job.title}" for job in running] + ([f"{waiting} waiting"] if waiting else [])
        show_caption(" · ".join(words))
        link_to("train", "Show")


def _unfinished(workspace: Workspace) -> list[Job]:
    try:
        return [job for job in queue_of(workspace).jobs() if not job.has_ended]
    except CrlcError:
        return []  # the Train page says what is wrong with the queue
