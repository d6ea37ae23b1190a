"""What the Start page remembers across the rerun that follows an import."""

from __future__ import annotations

import streamlit as st

_KEY = "start-imported"


def note_import(text: str) -> None:
    """Keep what is to be said about an import that is done."""
    st.session_state[_KEY] = text


def take_note() -> str | None:
    """What is to be said, once."""
    text: str | None = st.session_state.pop(_KEY, None)
    return text
