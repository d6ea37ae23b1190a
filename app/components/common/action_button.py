"""Buttons whose clicks are not lost when Streamlit interrupts the page."""

from __future__ import annotations

from typing import Any

from streamlit.delta_generator import DeltaGenerator

from app.state.clicks import consume_click, remember_click


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
    container.button(label, key=key, on_click=remember_click, args=(key,), **options)
    return consume_click(key)
