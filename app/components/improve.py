"""One button that makes a better run of the labels: CRLC-semi from the chosen run, followed in place."""

from __future__ import annotations

import streamlit as st

from app.components.plain import show_caption, show_error
from app.exploring.opened import annotations_of
from app.exploring.subject import RunSubject
from app.labelling.improving import Given, given_labels, job_of_parent, semi_arguments
from app.measuring import Answer, Question, measuring
from app.run_view import view_of
from app.state.exploring import box
from crlc.cli.output import duration
from crlc.errors import CrlcError
from crlc.jobs.job import Job
from crlc.jobs.metrics_follower import follower_of
from crlc.jobs.queue import JobQueue
from crlc.jobs.shared import queue_of
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

_HEIGHT = 84
_WITH_MOVES = "label-with-moves"
_ENDED = ("done", "failed")


def is_watching(workspace: Workspace, subject: RunSubject) -> bool:
    """Whether something goes on that the panel has to look at again by itself."""
    try:
        jobs = queue_of(workspace).jobs()
    except CrlcError:
        return False  # the panel says what is wrong with the queue
    job = job_of_parent(jobs, subject.name)
    if job is not None:
        return not job.has_ended
    usable = annotations_of(subject.dataset).usable_labels()
    if any(not one.has_ended for one in jobs) or not len(subject.rows_of(usable.ids)):
        return False
    known = measuring().known(_question(workspace, subject))
    return known is None or known.state not in _ENDED


def show_improve(workspace: Workspace, subject: RunSubject, *, has_child: bool) -> None:
    """The button with what it takes, or how far its training is."""
    with st.container(height=_HEIGHT, border=False):
        try:
            queue = queue_of(workspace)
            job = job_of_parent(queue.jobs(), subject.name)
            if job is None:
                _show_button(workspace, queue, subject, has_child=has_child)
            elif job.has_ended:
                _show_failure(queue, job)
            else:
                _show_progress(workspace, queue, job)
        except CrlcError as error:
            show_error(str(error))


def _show_button(workspace: Workspace, queue: JobQueue, subject: RunSubject, *, has_child: bool) -> None:
    with_moves = bool(box(_WITH_MOVES))
    given = given_labels(subject, annotations_of(subject.dataset), with_moves=with_moves)
    is_final = bool(subject.analysis.result.facts.get("final"))
    count = len(given)
    main, more = st.columns([5, 1.2], vertical_alignment="center")
    labels = f"{count:,} label{'' if count == 1 else 's'}"
    start = main.button(
        f"Improve with your {labels}" if count else "Improve with your labels",
        type="primary",
        key="improve",
        icon=":material/auto_fix_high:",
        width="stretch",
        disabled=not count or not is_final,
        help="Trains a new run that goes on from this one and follows your labels (CRLC-semi). This one is kept.",
    )
    with more.popover("", icon=":material/tune:", width="stretch", help="Options, and what to know before."):
        st.checkbox(
            f"Images moved by hand count as labels, too ({given.moved:,})",
            key=_WITH_MOVES,
            help="Images that you moved into a named cluster, where they have no label of their own.",
        )
        for note in given.notes:
            show_caption(note)
        if not given.notes:
            show_caption("Nothing speaks against these labels." if count else "There are no labels yet.")
    _show_reason(workspace, queue, subject, given, is_final=is_final, has_child=has_child)
    if start:
        queue.train(
            semi_arguments(subject.dataset.name, subject.name, with_moves=with_moves), title=subject.dataset.name
        )
        st.rerun()


def _show_reason(
    workspace: Workspace, queue: JobQueue, subject: RunSubject, given: Given, *, is_final: bool, has_child: bool
) -> None:
    """Why the button cannot be pressed, or how long it takes."""
    if not is_final:
        show_caption("This run is not finished: resume it on the Train page first.")
        return
    if not len(given):
        show_caption("Label at least one image; four of each name work well.")
        return
    busy = any(not job.has_ended for job in queue.jobs())
    question = _question(workspace, subject)
    answer = (measuring().known(question) or Answer()) if busy else measuring().ask(question)
    if answer.content is not None:
        words = f"in about {duration(answer.content['seconds'])}"
    elif answer.state == "failed":
        words = "(its time could not be measured)"
    else:
        words = "after the training before it" if busy else "(measuring the time)"
    ready = "New run: see What changed · again " if has_child else ""
    notes = f" · {len(given.notes)} note{'' if len(given.notes) == 1 else 's'} beside" if given.notes else ""
    show_caption(f"{ready}{words}{notes}")


def _question(workspace: Workspace, subject: RunSubject) -> Question:
    """How long it takes does not depend on how many labels there are, so it is asked once."""
    arguments = semi_arguments(subject.dataset.name, subject.name, with_moves=False)
    return Question(workspace.root, ("train", *arguments, "--dry-run"), f"{subject.dataset.info.uid} {subject.name}")


def _show_progress(workspace: Workspace, queue: JobQueue, job: Job) -> None:
    words, buttons = st.columns([5, 1.6], vertical_alignment="center")
    if job.run is None:
        words.progress(0.0, text="Improving: starting" if job.is_running else "Improving: waits for the one before it")
    else:
        run = Runs(workspace).open(job.run)
        view = view_of(run.status(), follower_of(run).records(), run.description()["settings"])
        left = "" if view.seconds_left is None else f", {duration(view.seconds_left)} left"
        words.progress(view.share, text=f"Improving: {view.headline[:1].lower()}{view.headline[1:]}{left}")
    if buttons.button("Stop", key="stop-improving", width="stretch", disabled=job.is_stopping):
        queue.stop(job.id)
        st.rerun()
    show_caption("Labels that you give meanwhile count the next time.")


def _show_failure(queue: JobQueue, job: Job) -> None:
    show_error(job.error or "It could not be started.")
    one, two = st.columns(2)
    if one.button("Try again", key="improve-again", width="stretch"):
        queue.retry(job.id)
        st.rerun()
    if two.button("Dismiss", key="improve-dismiss", width="stretch"):
        queue.forget(job.id)
        st.rerun()
