"""How every page begins: its title, what it is for, and at the right what it shows now; all in one line."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.facts import Fact, facts_line
from app.pages import entry_of

_LINE = "display:flex;align-items:baseline;gap:.9rem;line-height:1.75rem;min-height:1.75rem"
_TITLE = "font-size:1.4rem;font-weight:650;margin:0;padding:0;line-height:1.75rem"
_PURPOSE = "opacity:.65;font-size:.9rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_SHOWN = "text-align:right;line-height:1.75rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


def show_heading(page: str) -> DeltaGenerator:
    """The title of a page and what the page is for; returns the place beside it, for `show_subject_line`."""
    entry = entry_of(page)
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.html(
        f"<div style='{_LINE}'><h1 style='{_TITLE}'>{escape(entry.title)}</h1>"
        f"<span style='{_PURPOSE}' title='{escape(entry.purpose)}'>{escape(entry.purpose)}</span></div>"
    )
    return right


def show_subject_line(place: DeltaGenerator, facts: Iterable[Fact]) -> None:
    """What the page shows now, in the place that `show_heading` kept for it."""
    place.html(f"<div style='{_SHOWN}'>{facts_line(facts)}</div>")
