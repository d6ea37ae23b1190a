"""Component that shows groups of duplicates one by one; keys decide which images are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from app.components.common.numbered_edits import EDITS_SCRIPT

_HERE = Path(__file__).parent


@cache
def _load_component() -> Any:
    script = "\n".join(file.read_text(encoding="utf-8") for file in (EDITS_SCRIPT, _HERE / "desk.js"))
    return st.components.v2.component("crlc_duplicate_desk", js=script, css=(_HERE / "desk.css").read_text("utf-8"))


def show_duplicate_desk(data: dict[str, Any], *, key: str, decided: Callable[[Any], None]) -> None:
    """Show the component.

    Args:
        data: the groups and decisions, as `app.view_models.duplicate_session.build_desk_data` returns them.
        key: key of the component.
        decided: receives the decisions, before the page runs again.
    """
    show_component(_load_component(), key, {"work": decided}, data=data | {"key": key})
