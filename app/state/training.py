"""What the Train page remembers in a session: its boxes, the job just asked for, a suggested number that was taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import streamlit as st

from app.state.selection import selection

KEPT: Literal["session"] = "session"
"""For `persist_state`: what is in a box stays there while another page is looked at."""

_FOLLOWED, _COUNTED, _LEAVING = "train-followed", "train-counted", "train-leaving"


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


def reset_boxes(contents: Mapping[str, Any]) -> None:
    """For a button: put into each box what is given for its key."""
    for key, content in contents.items():
        st.session_state[key] = content


def ask_for_count(dataset: str) -> None:
    """For a button: a number of clusters is to be suggested."""
    st.session_state[_COUNTED] = {*st.session_state.get(_COUNTED, ()), dataset}


def wants_count(dataset: str) -> bool:
    """Whether one was asked for."""
    return dataset in st.session_state.get(_COUNTED, ())


def leave_for(page: str) -> None:
    """For a button: another page is wanted. A page that draws itself anew every second could miss the click itself."""
    st.session_state[_LEAVING] = page


def wanted_page() -> str | None:
    """The page that was asked for, told once."""
    page: str | None = st.session_state.pop(_LEAVING, None)
    return page
