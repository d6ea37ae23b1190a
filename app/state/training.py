"""Session state of the Train page: its widgets, the job that is followed, and the requested cluster count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import streamlit as st

from app.state.selection import get_selection

PERSISTENCE: Literal["session"] = "session"
"""Value of `persist_state`: widgets keep their values while another page is open."""

_FOLLOWED_JOB, _COUNT_REQUESTS, _REQUESTED_PAGE = "train-followed", "train-counted", "train-leaving"


def follow_job(job_id: str | None) -> None:
    """Show a job instead of the selected run until its run exists or the user selects another; `None` to stop."""
    st.session_state[_FOLLOWED_JOB] = None if job_id is None else (job_id, get_selection())


def get_followed_job() -> str | None:
    """Return the job to show instead of the selected run; `None` if there is none."""
    job_id, chosen = st.session_state.get(_FOLLOWED_JOB) or (None, None)
    return job_id if chosen == get_selection() else None


def build_clusters_key(dataset: str) -> str:
    """Return the key of the widget for the number of clusters."""
    return f"train-clusters-{dataset}"


def set_default_count(dataset: str, count: int) -> None:
    """Set the number in the widget unless it has one. Streamlit warns of a default beside a value of the session."""
    st.session_state.setdefault(build_clusters_key(dataset), count)


def apply_suggested_count(dataset: str, count: int) -> None:
    """Write the suggested number into the widget (callback of a button)."""
    st.session_state[build_clusters_key(dataset)] = count


def set_widget_values(values: Mapping[str, Any]) -> None:
    """Set the values of widgets by key (callback of a button)."""
    for key, value in values.items():
        st.session_state[key] = value


def request_count(dataset: str) -> None:
    """Request a suggested number of clusters (callback of a button)."""
    st.session_state[_COUNT_REQUESTS] = {*st.session_state.get(_COUNT_REQUESTS, ()), dataset}


def is_count_requested(dataset: str) -> bool:
    """Return whether a suggestion was requested."""
    return dataset in st.session_state.get(_COUNT_REQUESTS, ())


def request_page(page: str) -> None:
    """Request another page (callback of a button): a page that reruns every second could miss the click itself."""
    st.session_state[_REQUESTED_PAGE] = page


def pop_requested_page() -> str | None:
    """Return the requested page, and clear the request."""
    page: str | None = st.session_state.pop(_REQUESTED_PAGE, None)
    return page
