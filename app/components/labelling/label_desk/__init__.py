"""Labelling component: one large image, names with their keys, and similar images to compare with.

The browser shows the next image immediately and sends the decisions to Python, which returns their outcome in `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


@cache
def _load_component() -> Any:
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("view.js", "desk.js"))
    return st.components.v2.component("crlc_label_desk", js=script, css=(_HERE / "desk.css").read_text("utf-8"))


def show_label_desk(data: dict[str, Any], *, key: str, on_decision: Callable[[], None]) -> None:
    """Show the labelling component.

    Args:
        data: outcome of the decisions (`window`, `answered`, `failed`, `saved`, `message`); the images (`queue`,
            `order`, `items`, `clusters`, `states`); the `names` with their label counts, and the recommended count
            `enough`.
        key: key of the component; `app.view_models.label_session.parse_batch` parses its state `work`.
        on_decision: called after a decision of the user, before the page runs again.
    """
    _load_component()(key=key, data=data, on_work_change=on_decision)
