"""Component of every page: shows that a click was heard, opens the keyboard shortcuts, restores a cleared page.

Streamlit shows nothing until the server answers a click, which takes seconds while a training uses all cores.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.keyboard import show_keys

_HERE = Path(__file__).parent
_KEY = "page-feedback"


@cache
def _load_component() -> Any:
    return st.components.v2.component("crlc_page_feedback", js=(_HERE / "feedback.js").read_text(encoding="utf-8"))


@cache
def _read_style() -> str:
    return f"<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>"


def show_page_feedback() -> None:
    """Add the style of all pages, the sign for a click that was heard, and the ? key."""
    st.html(_read_style())
    found = _load_component()(key=_KEY, on_shortcuts_change=lambda: None, on_restored_change=lambda: None)
    if found.shortcuts is not None:
        show_keys()
