"""A run during and after training: progress, metrics, problems, and buttons to stop and resume.

Everything is read from the run's files and the queue, so that all tabs show the same, also after a refresh or restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption, show_error, show_text, show_warning
from app.components.training.cluster_samples import show_cluster_samples
from app.components.training.run_curves import show_curves, show_details, show_numbers
from app.navigation import go_to
from app.state import training
from app.state.clicks import consume_click, remember_click
from app.state.selection import request_selection
from app.view_models.job_titles import describe_job
from app.view_models.run_table import list_runs
from app.view_models.training_progress import (
    TrainingProgressView,
    build_progress_view,
    compute_first_result_epoch,
    compute_result_epoch,
    count_cluster_sizes,
    format_stage_titles,
    read_result_metadata,
)
from crlc.errors import CrlcError
from crlc.formatting import format_duration
from crlc.jobs.job import Job, JobState
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared_queue import get_queue
from crlc.runs.folder import RunFolder
from crlc.runs.metrics_follower import get_follower
from crlc.runs.state import RunState, RunStatus
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_POLL_SECONDS = 1.0
_LOG_LINES = 30
_CONTAINER_KEY = "live-run"
# Streamlit fades elements while it redraws them; during training, the curves would blink every second.
_NO_FADING = f"<style>.st-key-{_CONTAINER_KEY} [data-stale='true'] {{ opacity: 1 !important; }}</style>"
_STATE_TITLES: dict[RunState | JobState, str] = {
    RunState.QUEUED: "Preparing",
    RunState.RUNNING: "Training",
    RunState.STOPPING: "Stopping after the current step",
    RunState.STOPPED: "Stopped",
    RunState.FINISHED: "Finished",
    RunState.FAILED: "Failed",
    RunState.INTERRUPTED: "Interrupted",
    JobState.WAITING: "Queued",
    JobState.CANCELLED: "Cancelled",
}


def show_live_run(queue: JobQueue, run: str | None) -> None:
    """Show the job started last, or the current run; polled every second while a job is active."""
    try:
        live = any(not job.is_final for job in queue.read_jobs())
    except CrlcError as error:
        show_error(str(error))
        return
    st.html(_NO_FADING)
    with st.container(key=_CONTAINER_KEY):
        make_fragment(_show, run_every=_POLL_SECONDS if live else None)(run, live=live)


def has_finished_run(workspace: Workspace, run: str | None) -> bool:
    """Return whether the page shows a finished run, whose primary button opens its clusters."""
    try:
        return run is not None and RunStore(workspace).open(run).read_status().state is RunState.FINISHED
    except CrlcError:
        return False  # `show_live_run` shows the error


def _show(run: str | None, *, live: bool) -> None:
    page = training.pop_requested_page()
    if page is not None:
        go_to(page)
    workspace = Workspace()
    queue = get_queue(workspace)
    try:
        jobs = queue.read_jobs()
        if live and all(job.is_final for job in jobs):
            st.rerun()  # ends the polling
        job = next((job for job in jobs if job.id == training.get_followed_job()), None)
        if job is not None and job.run is not None:
            training.follow_job(None)
            request_selection(job.title, job.run)
            st.rerun()
        if job is not None:
            _show_job_without_run(queue, job)
        elif run is not None:
            _show_run(queue, RunStore(workspace).open(run))
        elif not live:
            st.info("No run selected. Start training, or select a run in the sidebar.")
        if queue.problem:
            show_error(queue.problem)
        _show_queue(queue, [one for one in jobs if not one.is_final], shown=run)
        _show_failures(queue, [one for one in jobs if one.run is None and one.is_final and one is not job])
    except CrlcError as error:
        show_error(str(error))


# ---- one run


def _show_run(queue: JobQueue, run: RunFolder) -> None:
    records = get_follower(run).read_records()
    status = run.read_status()
    metadata = run.read_metadata()
    view = build_progress_view(status, records, metadata["settings"])
    job = queue.find_job_of_run(run.id)
    title, buttons = st.columns([3, 2], vertical_alignment="center")
    with title:
        state = RunState.STOPPING if job is not None and job.is_stopping else view.state
        waits = job is not None and job.is_waiting
        st.header(_STATE_TITLES[JobState.WAITING if waits else state], anchor=False)
    with buttons:
        _show_buttons(queue, run, view, job)
    left = "" if view.seconds_left is None else f", {format_duration(view.seconds_left)} left"
    spent = f", {format_duration(view.seconds)}" if view.seconds and not view.is_training else ""
    st.progress(view.fraction, text=f"{view.headline}{left}{spent}")
    _show_next_steps(run, view, status, metadata["settings"])
    if view.state.is_error and view.message:
        show_error(f"{view.message[:1].upper()}{view.message[1:]}")
    if job is not None and job.state.is_error and not waits:
        _show_log(queue, job)
    for text in view.warnings:
        show_warning(text)
    sizes = count_cluster_sizes(run)
    show_numbers(view, sizes)
    show_cluster_samples(Workspace(), run)
    show_curves(records, sizes, status.steps_per_epoch)
    stages = [name.partition(": ")[2] for name in format_stage_titles(metadata["settings"]).values()]
    show_details(view, records, sizes, status.steps_per_epoch, stages)


def _show_buttons(queue: JobQueue, run: RunFolder, view: TrainingProgressView, job: Job | None) -> None:
    with st.container(horizontal=True, horizontal_alignment="right"):
        if job is not None and job.is_waiting:
            _show_action("Cancel", queue.cancel, job.id, key="live-cancel", help="Removes the run from the queue.")
        elif job is not None and job.is_stopping:
            _show_action(
                "Stop now",
                lambda one: queue.stop(one, at_once=True),
                job.id,
                key="live-stop-now",
                help="Stops without a checkpoint. Up to a minute of training is lost.",
            )
        elif job is not None and job.is_running and view.is_training:  # its process outlives a finished run
            _show_action(
                "Stop",
                queue.stop,
                job.id,
                key="live-stop",
                help="Stops after the current step and saves a checkpoint. The run can be resumed.",
            )
        elif view.state.is_resumable:
            _show_action(
                "Resume", queue.resume, run.id, key="live-resume", help="Continues from the last checkpoint.", main=True
            )


def _show_next_steps(
    run: RunFolder, view: TrainingProgressView, status: RunStatus, settings: Mapping[str, Any]
) -> None:
    """Show buttons that open the clusters, even during training; always visible, so that nothing moves."""
    metadata = read_result_metadata(run)
    in_progress = "" if metadata is not None and metadata.get("final", True) else " (in progress)"
    is_final = metadata is not None and not in_progress
    with st.container(horizontal=True, vertical_alignment="center"):
        _show_page_button(
            "clusters", f"View clusters{in_progress}", "category", is_open=metadata is not None, is_main=is_final
        )
        _show_page_button("explore", f"Explore map{in_progress}", "bubble_chart", is_open=metadata is not None)
        if not view.is_training:
            _show_page_button("runs", "Compare runs", "stacked_line_chart")
        elif metadata is None:
            show_caption(f"First clusters after epoch {compute_first_result_epoch(settings):,}.")
        else:
            show_caption(f"Showing epoch {compute_result_epoch(metadata, status):,}; still training.")


def _show_page_button(page: str, label: str, icon: str, *, is_open: bool = True, is_main: bool = False) -> None:
    st.button(
        label,
        type="primary" if is_main else "secondary",
        key=f"ways-{page}",
        icon=f":material/{icon}:",
        disabled=not is_open,
        on_click=training.request_page,
        args=(page,),
    )


# ---- jobs


def _show_job_without_run(queue: JobQueue, job: Job) -> None:
    """Show a job that has no run yet: it is queued, is starting, or has failed."""
    title, buttons = st.columns([3, 2], vertical_alignment="center")
    title.header("Starting" if job.is_running else _STATE_TITLES[job.state], anchor=False)
    with buttons, st.container(horizontal=True, horizontal_alignment="right"):
        if not job.is_final:
            _show_action("Cancel", queue.stop, job.id, key="live-cancel")
        else:
            _show_action("Try again", _retry, queue, job.id, key="live-retry", main=True)
    if job.error:
        show_error(job.error)
    if not job.is_final:
        last = [line for line in queue.read_log(job.id).splitlines() if line.strip()][-1:]
        st.progress(0.0, text="Loading images and preparing the network" if job.is_running else "Queued")
        show_caption(last[0] if last else "")
    else:
        _show_log(queue, job)


def _retry(queue: JobQueue, job_id: str) -> None:
    training.follow_job(queue.retry(job_id).id)


def _show_queue(queue: JobQueue, jobs: list[Job], shown: str | None) -> None:
    """Show the other active jobs."""
    others = [job for job in jobs if job.id != training.get_followed_job() and (job.run is None or job.run != shown)]
    if not others:
        return
    st.header("Queue", anchor=False)
    entries = {entry.id: entry for entry in list_runs(Workspace())}
    for job in others:
        words, buttons = st.columns([3, 2], vertical_alignment="center")
        with words:
            where = ", started in a terminal" if job.is_external else ""
            show_text(f"{_STATE_TITLES[job.state]}{where}: {describe_job(job, entries)}")
        with buttons, st.container(horizontal=True, horizontal_alignment="right"):
            if job.run is not None:
                _show_action("Show", lambda one: request_selection(one.title, one.run), job, key=f"show-{job.id}")
            else:
                _show_action("Show", training.follow_job, job.id, key=f"show-{job.id}")
            _show_action("Stop" if job.is_running else "Cancel", queue.stop, job.id, key=f"stop-{job.id}")


def _show_failures(queue: JobQueue, jobs: list[Job]) -> None:
    """Show the jobs that failed before they had a run; they appear in no other list."""
    entries = {entry.id: entry for entry in list_runs(Workspace())} if jobs else {}
    for job in jobs:
        if job.state is JobState.CANCELLED:
            continue
        words, buttons = st.columns([3, 2], vertical_alignment="center")
        with words:
            show_error(f"{describe_job(job, entries)}: {job.error or job.state}")
        with buttons, st.container(horizontal=True, horizontal_alignment="right"):
            _show_action("Try again", _retry, queue, job.id, key=f"retry-{job.id}")
            _show_action("Dismiss", queue.dismiss, job.id, key=f"forget-{job.id}")


def _show_log(queue: JobQueue, job: Job) -> None:
    lines = queue.read_log(job.id).splitlines()[-_LOG_LINES:]
    if lines:
        with st.expander("Log of the training process"):
            st.code("\n".join(lines), language=None)


def _show_action(
    label: str,
    act: Callable[..., object],
    *arguments: object,
    key: str,
    help: str | None = None,
    main: bool = False,
) -> None:
    """Show a button that runs an action and redraws the whole page; errors are shown in place.

    The click is remembered: the page may be redrawn, for example by a finished estimate, before this run reaches it.
    """
    st.button(label, key=key, help=help, type="primary" if main else "secondary", on_click=remember_click, args=(key,))
    if consume_click(key):
        try:
            act(*arguments)
        except CrlcError as error:
            show_error(str(error))
        else:
            st.rerun()
