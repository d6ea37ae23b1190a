"""Work that goes on in the background, watched from a page; and what is computed while the page waits."""

from __future__ import annotations

import streamlit as st

from app.components.plain import show_caption, show_error
from app.exploring.background import Work, dismiss, work
from app.exploring.subject import RunSubject, Subject
from crlc.cli.output import describe
from crlc.progress import Progress


def watch(key: str) -> Work | None:
    """Show how far a piece of work is, with a way to end it; the page runs again when it has ended.

    Returns:
        the work while it goes on.
    """
    found = work(key)
    if found is None:
        return None
    if found.running:
        _follow(key)
        return found
    if found.error is not None:
        show_error(found.error)
        st.button("Dismiss", key=f"dismiss-{key}", on_click=dismiss, args=(key,))
    elif not found.cancelled:  # what was cancelled is not to begin again by itself
        dismiss(key)
    return None


@st.fragment(run_every=0.7)
def _follow(key: str) -> None:
    found = work(key)
    if found is None or not found.running:
        st.rerun()
        return
    bar, button = st.columns([6, 1], vertical_alignment="center")
    progress = found.progress
    share = progress.done / progress.total if progress is not None and progress.total else 0.0
    said = "starting" if progress is None else describe(progress)
    with bar:
        show_caption(f"{found.title}: {said}")  # the title may be a path, and the bar's own text is Markdown
        st.progress(min(share, 1.0))
    button.button("Cancel", key=f"cancel-{key}", on_click=found.cancel, width="stretch")


def need_quality(subject: Subject) -> None:
    """Have the quality of all images ready, with a bar while it is computed."""
    if not isinstance(subject, RunSubject) or subject.has_quality:
        return
    bar = st.progress(0.0, text="Comparing images with their neighbours")

    def report(progress: Progress) -> None:
        bar.progress(progress.done / progress.total if progress.total else 0.0, text=describe(progress))

    subject.quality(report)
    bar.empty()
