"""Buttons whose clicks are not lost when Streamlit interrupts the page."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

_CLICK_SECONDS = 10.0
"""An older click is ignored: its button was hidden meanwhile, and may stand for something else now."""


def show_action_button(container: DeltaGenerator, label: str, *, key: str, **options: Any) -> bool:
    """Show a button, and return whether it was clicked.

    The value of `st.button` lasts for one page run. A run that ends before it reaches the action (a fragment that
    reruns the page, a second click) would lose the click; here it is remembered until a run returns it.

    Args:
        container: The container that shows the button.
        label: The text of the button.
        key: The key of the button.
        options: Other arguments of `st.button`.

    """
    container.button(label, key=key, on_click=_remember_click, args=(key,), **options)
    clicked_at: float | None = st.session_state.pop(_build_click_key(key), None)
    return clicked_at is not None and time.monotonic() - clicked_at < _CLICK_SECONDS


def _remember_click(key: str) -> None:
    st.session_state[_build_click_key(key)] = time.monotonic()


def _build_click_key(key: str) -> str:
    return f"clicked-{key}"
