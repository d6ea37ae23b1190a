"""A result on its way: marked as such, with a button as soon as there is a newer one."""

from __future__ import annotations

import streamlit as st

from app.components.plain import show_error
from app.exploring.opened import let_go, newest_facts
from app.exploring.subject import RunSubject, Subject
from app.run_view import epoch_of, unfinished_words
from crlc.errors import CrlcError

_LOOK_SECONDS = 3.0
_TRAINS = ("queued", "running", "stopping")


def show_unfinished(subject: Subject) -> None:
    """One line above what is shown of a run that is not finished; nothing for others."""
    if not isinstance(subject, RunSubject) or subject.analysis.result.facts.get("final", True):
        return
    try:
        trains = subject.analysis.run.status()["state"] in _TRAINS
    except CrlcError:
        return  # the Train page says what is wrong with it
    st.fragment(_show, run_every=_LOOK_SECONDS if trains else None)(subject)


def _show(subject: RunSubject) -> None:
    facts, run = subject.analysis.result.facts, subject.analysis.run
    try:
        status, newest = run.status(), newest_facts(subject)
    except CrlcError as error:
        show_error(str(error))
        return
    with st.container(horizontal=True, vertical_alignment="center", height=48, border=False):  # with or without button
        st.badge(unfinished_words(facts, status), icon=":material/hourglass_top:", color="orange")
        if newest["folder"] == facts["folder"]:
            return
        is_final = newest.get("final", True)
        label = "Show the finished clusters" if is_final else f"Show those after epoch {epoch_of(newest, status):,}"
        if st.button(label, key="show-newest", type="primary" if is_final else "secondary",
                     help="The clusters of the newest look; what you see now is then gone."):  # fmt: skip
            let_go(subject)
            st.rerun()
