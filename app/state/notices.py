"""Background tasks that this session started or watches, and the notice of a finished import."""

from __future__ import annotations

import time

import streamlit as st

_NOTICE_SECONDS = 60.0
_NOTICE, _STARTED, _WATCHED = "start-imported", "start-imports", "start-watched"


def record_started_task(key: str) -> None:
    """Record a task as started in this session, which then shows its outcome."""
    st.session_state[_STARTED] = {*st.session_state.get(_STARTED, ()), key}


def is_started_here(key: str) -> bool:
    """Return whether this session started a task."""
    return key in st.session_state.get(_STARTED, ())


def watch_task(key: str) -> None:
    """Record that the page shows the progress of a task; valid until the user opens another page."""
    st.session_state[_WATCHED] = {*st.session_state.get(_WATCHED, ()), key}


def is_watched(key: str) -> bool:
    """Return whether the page has shown the progress of a task all the time."""
    return key in st.session_state.get(_WATCHED, ())


def forget_watched_tasks() -> None:
    """Forget the watched tasks: the user has opened another page."""
    st.session_state.pop(_WATCHED, None)


def set_import_notice(text: str) -> None:
    """Set the notice of a finished import, which is shown for a while."""
    st.session_state[_NOTICE] = (text, time.monotonic())


def get_import_notice() -> str | None:
    """Return the notice of the last import; `None` if it has been shown long enough."""
    text, since = st.session_state.get(_NOTICE, (None, 0.0))
    return text if time.monotonic() - since < _NOTICE_SECONDS else None
