"""Heading of every page in one line: title, purpose, and the current view on the right."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.common.metadata_line import Fact, format_facts
from app.navigation import get_page

_LINE = "display:flex;align-items:baseline;gap:.9rem;line-height:1.75rem;min-height:1.75rem"
_TITLE = "font-size:1.4rem;font-weight:650;margin:0;padding:0;line-height:1.75rem"
_PURPOSE = "opacity:.65;font-size:.9rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_VIEW = "text-align:right;line-height:1.75rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


def show_heading(page: str) -> DeltaGenerator:
    """Show the title and purpose of a page; return the container beside them, for `show_view_line`."""
    entry = get_page(page)
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.html(
        f"<div style='{_LINE}'><h1 style='{_TITLE}'>{escape(entry.title)}</h1>"
        f"<span style='{_PURPOSE}' title='{escape(entry.purpose)}'>{escape(entry.purpose)}</span></div>"
    )
    return right


def show_view_line(container: DeltaGenerator, facts: Iterable[Fact]) -> None:
    """Show facts about the current view in the container that `show_heading` returned."""
    container.html(f"<div style='{_VIEW}'>{format_facts(facts)}</div>")
