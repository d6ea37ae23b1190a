"""Button that trains a new run with the labels (CRLC-semi, from the current run), and its progress."""

from __future__ import annotations

import streamlit as st

from app.background.commands import BackgroundCommand, CommandResult, build_timing_command, get_command_runner
from app.components.common.action_button import show_action_button
from app.components.common.safe_text import show_caption, show_error
from app.state.widgets import get_widget_value
from app.view_models.cluster_view import RunView
from app.view_models.improvement import (
    TrainingLabels,
    build_semi_arguments,
    collect_training_labels,
    find_improvement_job,
)
from app.view_models.training_progress import build_progress_view
from app.view_models.view_cache import open_annotations
from crlc.errors import CrlcError
from crlc.formatting import format_count, format_duration
from crlc.jobs.job import Job
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared_queue import get_queue
from crlc.runs.metrics_follower import get_follower
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_HEIGHT_PIXELS = 98
_WITH_MOVES = "label-with-moves"


def is_improving(workspace: Workspace, view: RunView) -> bool:
    """Return whether a job or a time estimate is unfinished, so that the panel must be polled."""
    try:
        jobs = get_queue(workspace).read_jobs()
    except CrlcError:
        return False  # the panel shows this error
    job = find_improvement_job(jobs, view.name)
    if job is not None:
        return not job.is_final
    usable = open_annotations(view.dataset).load_usable_labels()
    if any(not one.is_final for one in jobs) or not len(view.find_rows(usable.ids)):
        return False
    known = get_command_runner().get_result(_build_estimate_command(workspace, view))
    return known is None or not known.is_finished


def show_improve(workspace: Workspace, view: RunView, *, has_child: bool) -> None:
    """Show the button with its time estimate, or the progress of the run that it started."""
    with st.container(height=_HEIGHT_PIXELS, border=False):
        try:
            queue = get_queue(workspace)
            job = find_improvement_job(queue.read_jobs(), view.name)
            if job is None:
                _show_button(workspace, queue, view, has_child=has_child)
            elif job.is_final:
                _show_failure(queue, job)
            else:
                _show_progress(workspace, queue, job)
        except CrlcError as error:
            show_error(str(error))


def _show_button(workspace: Workspace, queue: JobQueue, view: RunView, *, has_child: bool) -> None:
    with_moves = bool(get_widget_value(_WITH_MOVES))
    given = collect_training_labels(view, open_annotations(view.dataset), with_moves=with_moves)
    is_final = bool(view.analysis.result.metadata.get("final"))
    count = len(given)
    main, more = st.columns([2, 1], vertical_alignment="center")
    labels = format_count(count, "label")
    is_started = show_action_button(
        main,
        f"Improve with your {labels}" if count else "Improve with your labels",
        type="primary",
        key="improve",
        icon=":material/auto_fix_high:",
        width="stretch",
        disabled=not count or not is_final,
        help="Trains a new run from the current one with your labels (CRLC-semi). The current run is not changed.",
    )
    with more.popover("Options", width="stretch", help="Shows options and warnings about the labels."):
        st.checkbox(
            f"Use images moved by hand as labels ({given.moved:,})",
            key=_WITH_MOVES,
            help="Adds the images that you moved to a named cluster and that have no label.",
        )
        for note in given.labels.warnings:
            show_caption(note)
        if not given.labels.warnings:
            show_caption("No label problems found." if count else "No labels yet.")
    _show_reason(workspace, queue, view, given, is_final=is_final, has_child=has_child)
    if is_started:
        queue.submit(build_semi_arguments(view.dataset.name, view.name, with_moves=with_moves), title=view.dataset.name)
        st.rerun()


def _show_reason(
    workspace: Workspace, queue: JobQueue, view: RunView, given: TrainingLabels, *, is_final: bool, has_child: bool
) -> None:
    """Show the reason why the button is disabled, or the estimated time."""
    if not is_final:
        show_caption("This run is not finished. Resume it on the Train page first.")
        return
    if not len(given):
        show_caption("Add at least one label; 4 per name work well.")
        return
    busy = any(not job.is_final for job in queue.read_jobs())
    command = _build_estimate_command(workspace, view)
    result = (
        (get_command_runner().get_result(command) or CommandResult()) if busy else get_command_runner().submit(command)
    )
    if result.content is not None:
        text = f"Takes about {format_duration(result.content['seconds'])}"
    elif result.is_finished:
        text = "Time could not be estimated"
    else:
        text = "Starts after the current run" if busy else "Estimating time…"
    ready = "New run ready: see What changed · " if has_child else ""
    notes = f" · {format_count(len(given.labels.warnings), 'warning')}" if given.labels.warnings else ""
    show_caption(f"{ready}{text}{notes}")


def _build_estimate_command(workspace: Workspace, view: RunView) -> BackgroundCommand:
    """Return the command that estimates the time; it does not depend on the number of labels, so it runs once."""
    arguments = build_semi_arguments(view.dataset.name, view.name, with_moves=False)
    return build_timing_command(workspace, view.dataset, "train", *arguments, "--dry-run")


def _show_progress(workspace: Workspace, queue: JobQueue, job: Job) -> None:
    bar, buttons = st.columns([5, 1.6], vertical_alignment="center")
    if job.run is None:
        bar.progress(0.0, text="Improving: starting" if job.is_running else "Improving: queued")
    else:
        run = RunStore(workspace).open(job.run)
        progress = build_progress_view(
            run.read_status(), get_follower(run).read_records(), run.read_metadata()["settings"]
        )
        left = "" if progress.seconds_left is None else f", {format_duration(progress.seconds_left)} left"
        bar.progress(progress.fraction, text=f"Improving: {progress.headline[:1].lower()}{progress.headline[1:]}{left}")
    if show_action_button(buttons, "Stop", key="stop-improving", width="stretch", disabled=job.is_stopping):
        queue.stop(job.id)
        st.rerun()
    show_caption("New labels apply to the next run.")


def _show_failure(queue: JobQueue, job: Job) -> None:
    show_error(job.error or "The training run could not be started.")
    one, two = st.columns(2)
    if show_action_button(one, "Try again", key="improve-again", width="stretch"):
        queue.retry(job.id)
        st.rerun()
    if show_action_button(two, "Dismiss", key="improve-dismiss", width="stretch"):
        queue.dismiss(job.id)
        st.rerun()
