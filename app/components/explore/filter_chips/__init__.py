"""Component with one chip per active filter, which a click removes. The texts of the chips are safe text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.state.widgets import get_widget_value
from app.view_models.image_filters import ActiveFilter

_HERE = Path(__file__).parent


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"chips.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_filter_chips", js=script, css=style)


def show_filter_chips(filters: Sequence[ActiveFilter], *, key: str, removed: Callable[[list[str]], None]) -> None:
    """Show the active filters.

    Args:
        filters: the filters, in order.
        key: key of the component.
        removed: receives the names of the filters to remove, before the page runs again.
    """

    def handle_removed() -> None:
        names = get_widget_value(key).get("removed")
        if names:
            removed([str(name) for name in names])

    chips = [one._asdict() for one in filters]
    _load_component()(key=key, data={"chips": chips}, on_removed_change=handle_removed)
