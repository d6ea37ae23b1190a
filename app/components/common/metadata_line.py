"""Short facts in one line, each with a unit and a tooltip."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple

import streamlit as st


class Fact(NamedTuple):
    """A short text and its tooltip."""

    text: str
    help: str


def show_facts(facts: Iterable[Fact], heading: str | None = None, colour: str | None = None) -> None:
    """Show facts in one line, after an optional coloured dot and heading; all texts are escaped."""
    dot = f"<span style='{_DOT};background:{escape(colour)}'></span>" if colour else ""
    title = f"<b style='overflow-wrap:anywhere'>{escape(heading)}</b>" if heading else ""
    items = [f"<span style='opacity:.8;font-size:.9rem'>{_format_fact(fact)}</span>" for fact in facts]
    items = [f"{dot}{title}", *items] if title else [f"{dot}{item}" if item is items[0] else item for item in items]
    # The separator before the first item of each line is outside the container, which clips it.
    separated = "".join(f"<span style='{_ITEM}'><span style='{_SEPARATOR}'>·</span>{item}</span>" for item in items)
    st.html(f"<div style='overflow:hidden;line-height:1.5'><div style='{_LINE}'>{separated}</div></div>")


def format_facts(facts: Iterable[Fact]) -> str:
    """Return the facts as HTML, with their texts escaped."""
    return f"<span style='opacity:.8;font-size:.9rem'>{' · '.join(map(_format_fact, facts))}</span>"


def _format_fact(fact: Fact) -> str:
    return f"<span title='{escape(fact.help)}' style='cursor:help;white-space:nowrap'>{escape(fact.text)}</span>"


_LINE = "display:flex;flex-wrap:wrap;align-items:baseline;margin-left:-.95rem"
_ITEM = "position:relative;padding-left:.95rem"
_SEPARATOR = "position:absolute;left:.35rem;opacity:.8"
_DOT = "display:inline-block;width:.75rem;height:.75rem;border-radius:50%;margin-right:.45rem"
