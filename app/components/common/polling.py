"""Progress of background tasks on a page, and of computations that the page waits for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from app.background.tasks import BackgroundTask, dismiss_task, get_task
from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption, show_error
from app.view_models.cluster_view import ClusterView, RunView
from crlc.formatting import format_progress
from crlc.progress import Progress

_POLL_SECONDS = 0.7


def show_task(key: str, has_news: Callable[[], bool] | None = None) -> BackgroundTask | None:
    """Show the progress of a background task with a Cancel button; the page is drawn again when the task ends.

    Args:
        key: key of the task.
        has_news: the page is also drawn again when this returns True; it is called about once a second.

    Returns:
        the task if it is running, else `None`.
    """
    found = get_task(key)
    if found is None:
        return None
    if found.is_running:
        _poll_task(key, has_news)
        return found
    if found.error is not None:
        show_error(found.error)
        st.button("Dismiss", key=f"dismiss-{key}", on_click=dismiss_task, args=(key,))
    elif not found.is_cancelled:  # a cancelled task stays listed, so that the page does not restart it
        dismiss_task(key)
    return None


@partial(make_fragment, run_every=_POLL_SECONDS)
def _poll_task(key: str, has_news: Callable[[], bool] | None) -> None:
    found = get_task(key)
    if found is None or not found.is_running or (has_news is not None and has_news()):
        st.rerun()
        return
    bar, button = st.columns([6, 1], vertical_alignment="center")
    progress = found.progress
    fraction = progress.done / progress.total if progress is not None and progress.total else 0.0
    with bar:
        # Not the bar's own text: a title may be a path, and the bar reads Markdown.
        show_caption(_describe_task(found))
        st.progress(min(fraction, 1.0))
    button.button("Cancel", key=f"cancel-{key}", on_click=found.cancel, width="stretch")


def _describe_task(task: BackgroundTask) -> str:
    """Return title and progress of a task; a stage that repeats the title is left out: `UMAP map: 72% · ...`."""
    if task.progress is None:
        return f"{task.title}: starting"
    text = format_progress(task.progress, " · ")
    stage, _, rest = text.partition(" · ")
    return f"{task.title}: {rest if rest and task.title.startswith(stage) else text}"


def ensure_quality(view: ClusterView) -> None:
    """Compute the quality of all images if needed, with a progress bar."""
    if not isinstance(view, RunView) or view.has_quality:
        return
    bar = st.progress(0.0, text="Comparing images with their neighbours")

    def report(progress: Progress) -> None:
        bar.progress(progress.done / progress.total if progress.total else 0.0, text=format_progress(progress, " · "))

    view.compute_quality(report)
    bar.empty()
