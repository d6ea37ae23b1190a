"""Values of widgets in the session state, by the key of the widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st


def get_widget_value(key: str) -> Any:
    """Return the value of a widget; `None` if it was not shown yet."""
    return st.session_state.get(key)


def set_widget_value(key: str, value: Any) -> None:
    """Set the value of a widget; call it before the widget is shown."""
    st.session_state[key] = value


def restore_widget_value(key: str, default: Any, options: Sequence[Any]) -> Any:
    """Restore the last value of a widget: Streamlit forgets the widgets of other pages.

    Args:
        key: key of the widget.
        default: initial value; also used if the last value is no longer an option.
        options: allowed values.

    Returns:
        The value that the widget will have.
    """
    last = f"{key}-last"
    value = st.session_state[key] if key in st.session_state else st.session_state.get(last, default)
    if value not in options:
        value = default
    st.session_state[key] = st.session_state[last] = value
    return value
