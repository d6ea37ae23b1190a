"""Safe text: file names, and errors that quote them, shown without interpreting Markdown or HTML.

Streamlit's own `st.error` and `st.caption` read their text as Markdown: a file name could then show an
icon, make a link or load an image from another server.
"""

from __future__ import annotations

import re
from html import escape

import streamlit as st

_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_WORD_JOINER = "\u2060"


def show_error(text: str) -> None:
    """Show an error."""
    _show(text, "background:rgba(255,75,75,.1);border-radius:6px;padding:.8rem 1rem", role="alert")


def show_warning(text: str) -> None:
    """Show a warning."""
    _show(text, "background:rgba(230,159,0,.16);border-radius:6px;padding:.8rem 1rem", role="status")


def show_done(text: str) -> None:
    """Show a message about a success."""
    _show(text, "background:rgba(0,158,115,.14);border-radius:6px;padding:.8rem 1rem", role="status")


def show_caption(text: str) -> None:
    """Show a caption in small, pale text."""
    _show(text, "opacity:.75;font-size:.875rem", role="note")


def show_text(text: str) -> None:
    """Show body text with its line breaks."""
    _show(text, "white-space:pre-line", role="note")


def escape_markdown(text: str) -> str:
    """Return Markdown that shows a text as it is: the label of a button, and a help text.

    Streamlit replaces `:smile:`, `:material/home:` and `->` after it has read the Markdown, where a backslash no longer
    helps: an invisible character keeps their parts apart.
    """
    return _PUNCTUATION.sub(lambda found: f"\\{found[0]}{_WORD_JOINER if found[0] in ':-<>' else ''}", text)


def _show(text: str, style: str, role: str) -> None:
    st.html(f"<div role='{role}' style='overflow-wrap:anywhere;{style}'>{escape(text)}</div>")
