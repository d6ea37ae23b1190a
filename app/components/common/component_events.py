"""Callbacks of components: they receive the value that the browser sent, before the page runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.state.widgets import get_widget_value


def build_callbacks(key: str, **receivers: Callable[[Any], object]) -> dict[str, Callable[[], None]]:
    """Return the callbacks of a component, as its arguments.

    Args:
        key: key of the component.
        receivers: the function that receives each state or trigger value of the component, by its name.
    """
    return {f"on_{name}_change": _build_callback(key, name, receive) for name, receive in receivers.items()}


def _build_callback(key: str, name: str, receive: Callable[[Any], object]) -> Callable[[], None]:
    def call() -> None:
        value = get_widget_value(key).get(name)
        if value is not None:
            receive(value)

    return call
