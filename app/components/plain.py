"""Text that came from outside (file names, errors that quote them), shown letter by letter.

Streamlit's own `st.error` and `st.caption` read their text as Markdown: a file name could then show an
icon, make a link or load a picture from elsewhere.
"""

from __future__ import annotations

from html import escape

import streamlit as st


def show_error(text: str) -> None:
    """What went wrong, in place."""
    _show(text, "background:rgba(255,75,75,.1);border-radius:6px;padding:.8rem 1rem", role="alert")


def show_warning(text: str) -> None:
    """What a person should know."""
    _show(text, "background:rgba(230,159,0,.16);border-radius:6px;padding:.8rem 1rem", role="status")


def show_done(text: str) -> None:
    """What has worked."""
    _show(text, "background:rgba(0,158,115,.14);border-radius:6px;padding:.8rem 1rem", role="status")


def show_caption(text: str) -> None:
    """A small remark."""
    _show(text, "opacity:.6;font-size:.875rem", role="note")


def show_text(text: str) -> None:
    """Ordinary text, line by line."""
    _show(text, "white-space:pre-line", role="note")


def _show(text: str, style: str, role: str) -> None:
    st.html(f"<div role='{role}' style='overflow-wrap:anywhere;{style}'>{escape(text)}</div>")
