"""Short facts in one line, each with a unit and an explanation that shows when the mouse rests on it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

import streamlit as st


class Fact(NamedTuple):
    """What is said, and what it means."""

    text: str
    help: str


def show_facts(facts: Iterable[Fact], heading: str | None = None, colour: str | None = None) -> None:
    """One line of facts, after a coloured dot and a heading where given; all of it shown letter by letter."""
    dot = f"<span style='{_DOT};background:{escape(colour)}'></span>" if colour else ""
    title = f"<b style='margin-right:.6rem;overflow-wrap:anywhere'>{escape(heading)}</b>" if heading else ""
    st.html(f"<div style='line-height:1.5'>{dot}{title}{facts_line(facts)}</div>")


def facts_line(facts: Iterable[Fact]) -> str:
    """The facts as HTML, shown letter by letter."""
    parts = " · ".join(
        f"<span title='{escape(fact.help)}' style='cursor:help;white-space:nowrap'>{escape(fact.text)}</span>"
        for fact in facts
    )
    return f"<span style='opacity:.8;font-size:.9rem'>{parts}</span>"


_DOT = "display:inline-block;width:.75rem;height:.75rem;border-radius:50%;margin-right:.45rem"
