"""Component with one chip per active filter, which a click removes. The texts of the chips are safe text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
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

    def handle_removed(names: Any) -> None:
        removed([str(name) for name in names])

    chips = [one._asdict() for one in filters]
    show_component(_load_component(), key, {"removed": handle_removed}, data={"chips": chips})
