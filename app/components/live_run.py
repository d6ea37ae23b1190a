"""A run while it trains, and afterwards: how far, how well, what goes wrong; with buttons to stop and go on.

Everything is read from the run's files and the queue, so that a refresh, a second tab or a restart shows the same.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.cluster_sizes import cluster_sizes, result_facts
from app.components.plain import show_caption, show_error, show_text, show_warning
from app.components.run_curves import show_curves, show_numbers
from app.pages import go_to
from app.run_view import Record, RunView, epoch_of, first_look, stage_titles, view_of
from app.state import training
from app.state.selection import choose
from crlc.cli.output import duration
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.metrics_follower import follower_of
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared import queue_of
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

_LOOK_SECONDS = 1.0
_LOG_LINES = 30
_PLACE = "live-run"
# Streamlit fades what it is about to draw anew; on a computer that trains, the curves would blink every second.
_NO_FADING = f"<style>.st-key-{_PLACE} [data-stale='true'] {{ opacity: 1 !important; }}</style>"
_WORDS = {
    "queued": "Preparing",
    "running": "Training",
    "stopping": "Stopping after the present step",
    "stopped": "Stopped",
    "finished": "Finished",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "waiting": "Waiting for the one before it",
    "cancelled": "Cancelled",
}


def show_live(queue: JobQueue, run: str | None) -> None:
    """What was just asked for, or the chosen run; looked at every second while something goes on."""
    try:
        live = any(not job.has_ended for job in queue.jobs())
    except CrlcError as error:
        show_error(str(error))
        return
    st.html(_NO_FADING)
    with st.container(key=_PLACE):
        st.fragment(_show, run_every=_LOOK_SECONDS if live else None)(run, live=live)


def _show(run: str | None, *, live: bool) -> None:
    page = training.wanted_page()
    if page is not None:
        go_to(page)
    workspace = Workspace()
    queue = queue_of(workspace)
    try:
        jobs = queue.jobs()
        if live and all(job.has_ended for job in jobs):
            st.rerun()  # so that nobody looks every second any more
        job = next((job for job in jobs if job.id == training.followed()), None)
        if job is not None and job.run is not None:
            training.follow(None)
            choose(job.title, job.run)
            st.rerun()
        if job is not None:
            _show_job_without_run(queue, job)
        elif run is not None:
            _show_run(queue, Runs(workspace).open(run))
        elif not live:
            st.info("No run is chosen. Start a training, or choose one in the sidebar.")
        if queue.problem:
            show_error(queue.problem)
        _show_queue(queue, [one for one in jobs if not one.has_ended], shown=run)
        _show_failures(queue, [one for one in jobs if one.run is None and one.has_ended and one is not job])
    except CrlcError as error:
        show_error(str(error))


# ---- one run


def _show_run(queue: JobQueue, run: RunFolder) -> None:
    records = follower_of(run).records()
    status = run.status()
    description = run.description()
    view = view_of(status, records, description["settings"])
    job = queue.job_of(run.id)
    title, buttons = st.columns([3, 2], vertical_alignment="center")
    with title:
        state = "stopping" if job is not None and job.is_stopping else view.state
        waits = job is not None and job.state == "waiting"
        st.subheader(_WORDS["waiting" if waits else state], anchor=False)
    with buttons:
        _show_buttons(queue, run, view, job)
    left = "" if view.seconds_left is None else f", {duration(view.seconds_left)} left"
    spent = f", {duration(view.seconds)}" if view.seconds and not view.trains else ""
    st.progress(view.share, text=f"{view.headline}{left}{spent}")
    _show_ways_on(run, view, status, description["settings"])
    stages = [name.partition(": ")[2] for name in stage_titles(description["settings"]).values()]
    if len(stages) > 1:
        show_caption("Stages: " + ", then ".join(stages) + ". Dotted lines in the curves are where the next one began.")
    if view.state in ("failed", "interrupted") and view.message:
        show_error(f"{view.message[:1].upper()}{view.message[1:]}")
    if job is not None and job.state in ("failed", "interrupted") and not waits:
        _show_log(queue, job)
    for text in view.warnings:
        show_warning(text)
    sizes = cluster_sizes(run)
    show_numbers(view, sizes)
    per_epoch = status["steps"] / status["epochs"] if status.get("steps") and status.get("epochs") else 1.0
    show_curves(records, sizes, per_epoch)


def _show_buttons(queue: JobQueue, run: RunFolder, view: RunView, job: Job | None) -> None:
    with st.container(horizontal=True, horizontal_alignment="right"):
        if job is not None and job.state == "waiting":
            _button("Cancel", queue.cancel, job.id, help="It has not begun to compute again.")
        elif job is not None and job.is_stopping:
            _button("End at once", lambda one: queue.stop(one, at_once=True), job.id,
                    help="Without a checkpoint: what came after the last one, a minute at most, is lost.")  # fmt: skip
        elif job is not None and job.is_running:
            _button("Stop", queue.stop, job.id, help="After the present step, with a checkpoint. It can be resumed.")
        elif view.state in ("stopped", "failed", "interrupted"):
            _button("Resume", queue.resume, run.id, help="Goes on from the last checkpoint.", main=True)


def _show_ways_on(run: RunFolder, view: RunView, status: Record, settings: Record) -> None:
    """Where to look at the clusters, those on their way, too. The same buttons all the time, so that nothing moves."""
    facts = result_facts(run)
    so_far = "" if facts is not None and facts.get("final", True) else " so far"
    with st.container(horizontal=True, vertical_alignment="center"):
        _show_way("explore", f"Explore the clusters{so_far}", "bubble_chart", is_open=facts is not None)
        _show_way("clusters", f"Look through them{so_far}", "category", is_open=facts is not None)
        if not view.trains:
            _show_way("runs", "Compare with other runs", "stacked_line_chart")
        elif facts is None:
            show_caption(f"The first clusters can be looked at after epoch {first_look(settings):,}.")
        else:
            show_caption(f"Those after epoch {epoch_of(facts, status):,}, while training goes on.")


def _show_way(page: str, label: str, icon: str, *, is_open: bool = True) -> None:
    st.button(
        label,
        key=f"ways-{page}",
        icon=f":material/{icon}:",
        disabled=not is_open,
        on_click=training.leave_for,
        args=(page,),
    )


# ---- jobs


def _show_job_without_run(queue: JobQueue, job: Job) -> None:
    """Asked for, but there is no run yet: it waits, starts, or could not."""
    title, buttons = st.columns([3, 2], vertical_alignment="center")
    title.subheader("Starting" if job.is_running else _WORDS[job.state], anchor=False)
    with buttons, st.container(horizontal=True, horizontal_alignment="right"):
        if not job.has_ended:
            _button("Cancel", queue.stop, job.id)
        else:
            _button("Try again", lambda one: training.follow(queue.retry(one).id), job.id, main=True)
    if job.error:
        show_error(job.error)
    if not job.has_ended:
        last = [line for line in queue.log(job.id).splitlines() if line.strip()][-1:]
        st.progress(0.0, text="Reading the images and preparing the network" if job.is_running else "Waiting")
        show_caption(last[0] if last else "")
    else:
        _show_log(queue, job)


def _show_queue(queue: JobQueue, jobs: list[Job], shown: str | None) -> None:
    """The others that run or wait."""
    others = [job for job in jobs if job.id != training.followed() and (job.run is None or job.run != shown)]
    if not others:
        return
    st.subheader("Queue", anchor=False)
    for job in others:
        words, buttons = st.columns([3, 2], vertical_alignment="center")
        with words:
            show_text(f"{job.title}: {job.state}{', started in a terminal' if job.from_elsewhere else ''}")
        with buttons, st.container(horizontal=True, horizontal_alignment="right"):
            if job.run is not None:
                _button("Show", lambda one: choose(one.title, one.run), job, key=f"show-{job.id}")
            else:
                _button("Show", training.follow, job.id, key=f"show-{job.id}")
            _button("Stop" if job.is_running else "Cancel", queue.stop, job.id, key=f"stop-{job.id}")


def _show_failures(queue: JobQueue, jobs: list[Job]) -> None:
    """Those that never became a run: on no list but this one."""
    for job in jobs:
        if job.state == "cancelled":
            continue
        words, buttons = st.columns([3, 2], vertical_alignment="center")
        with words:
            show_error(f"{job.title}: {job.error or job.state}")
        with buttons, st.container(horizontal=True, horizontal_alignment="right"):
            _button("Try again", lambda one: training.follow(queue.retry(one).id), job.id, key=f"retry-{job.id}")
            _button("Take off the list", queue.forget, job.id, key=f"forget-{job.id}")


def _show_log(queue: JobQueue, job: Job) -> None:
    lines = queue.log(job.id).splitlines()[-_LOG_LINES:]
    if lines:
        with st.expander("What its process printed last"):
            st.code("\n".join(lines), language=None)


def _button(
    label: str,
    act: Callable[..., object],
    *arguments: object,
    key: str | None = None,
    help: str | None = None,
    main: bool = False,
) -> None:
    """A button that does something and has the whole page drawn anew; what goes wrong is said in place."""
    kind = "primary" if main else "secondary"
    if st.button(label, key=key or f"live-{label}", help=help, type=kind):
        try:
            act(*arguments)
        except CrlcError as error:
            show_error(str(error))
        else:
            st.rerun()
