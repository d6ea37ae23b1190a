"""What a session began in the background (imports, exports), and what is to be said of an import that is done."""

from __future__ import annotations

import streamlit as st

_KEY, _BEGUN = "start-imported", "start-imports"


def note_begun(key: str) -> None:
    """Remember a piece of work as begun in this session: its outcome is for this one to tell."""
    st.session_state[_BEGUN] = {*st.session_state.get(_BEGUN, ()), key}


def was_begun(key: str) -> bool:
    """Whether this session began it."""
    return key in st.session_state.get(_BEGUN, ())


def note_import(text: str) -> None:
    """Keep what is to be said about an import that is done."""
    st.session_state[_KEY] = text


def take_note() -> str | None:
    """What is to be said, once."""
    text: str | None = st.session_state.pop(_KEY, None)
    return text
