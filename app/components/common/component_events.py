"""Messages of components: each is received once, before the page runs again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from app.state.widgets import get_widget_value, set_widget_value


def show_component(
    component: Any, key: str, receivers: Mapping[str, Callable[[Any], object]], **arguments: Any
) -> None:
    """Show a component, and pass the values that the browser sends to their receivers.

    Args:
        component: the component.
        key: key of the component.
        receivers: function that receives a state or trigger value, by the name of the value.
        arguments: other arguments of the component, such as `data`.
    """
    callbacks = {f"on_{name}_change": partial(_receive, key, name, receive) for name, receive in receivers.items()}
    result = component(key=key, **arguments, **callbacks)
    missed = get_widget_value(_build_missed_key(key))
    if missed:
        set_widget_value(_build_missed_key(key), ())
        for name in missed:
            if result.get(name) is not None:
                receivers[name](result[name])
        st.rerun()


def _receive(key: str, name: str, receive: Callable[[Any], object]) -> None:
    """Pass on a value; a click while the page runs may end that run, and then Streamlit knows the key only later."""
    values = get_widget_value(key)
    if values is None:
        missed = get_widget_value(_build_missed_key(key)) or ()
        set_widget_value(_build_missed_key(key), (*missed, name))
    elif values.get(name) is not None:
        receive(values[name])


def _build_missed_key(key: str) -> str:
    return f"{key}-missed"
