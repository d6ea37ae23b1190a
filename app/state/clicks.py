"""Session state of clicks on buttons, which are remembered until a run of the page handles them."""

from __future__ import annotations

import time

import streamlit as st

_CLICK_SECONDS = 10.0
"""An older click is ignored: its button was hidden meanwhile, and may stand for something else now."""


def remember_click(key: str) -> None:
    """Store the time of a click on the button with this key."""
    st.session_state[_build_click_key(key)] = time.monotonic()


def consume_click(key: str) -> bool:
    """Return whether the button with this key was clicked recently, and forget the click."""
    clicked_at: float | None = st.session_state.pop(_build_click_key(key), None)
    return clicked_at is not None and time.monotonic() - clicked_at < _CLICK_SECONDS


def _build_click_key(key: str) -> str:
    return f"clicked-{key}"
