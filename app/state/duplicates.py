"""Session state of the Duplicates page."""

from __future__ import annotations

import streamlit as st

from app.view_models.duplicate_session import DuplicateSession

KIND_WIDGET = "duplicates-kind"
"""Key of the widget that chooses between identical files and near duplicates."""

_KEY = "duplicates"


def get_duplicate_session(dataset: str) -> DuplicateSession:
    """Return the decisions about a dataset; another dataset starts with an empty session."""
    session: DuplicateSession | None = st.session_state.get(_KEY)
    if session is None or session.dataset != dataset:
        session = st.session_state[_KEY] = DuplicateSession(dataset)
    return session
