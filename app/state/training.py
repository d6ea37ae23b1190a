"""What the Train page remembers in a session: the job just asked for, and a suggested number that was taken."""

from __future__ import annotations

import streamlit as st

from app.state.selection import selection

_FOLLOWED, _COUNTED = "train-followed", "train-counted"


def follow(job_id: str | None) -> None:
    """Show this job in place of the chosen run, until its run is known or a person chooses another; none for none."""
    st.session_state[_FOLLOWED] = None if job_id is None else (job_id, selection())


def followed() -> str | None:
    """The job to show in place of the chosen run."""
    job_id, chosen = st.session_state.get(_FOLLOWED) or (None, None)
    return job_id if chosen == selection() else None


def clusters_box(dataset: str) -> str:
    """The key of the box with the number of clusters."""
    return f"train-clusters-{dataset}"


def take_clusters(dataset: str, count: int) -> None:
    """For a button: put the suggested number into the box."""
    st.session_state[clusters_box(dataset)] = count


def ask_for_count(dataset: str) -> None:
    """For a button: a number of clusters is to be suggested."""
    st.session_state[_COUNTED] = {*st.session_state.get(_COUNTED, ()), dataset}


def wants_count(dataset: str) -> bool:
    """Whether one was asked for."""
    return dataset in st.session_state.get(_COUNTED, ())
