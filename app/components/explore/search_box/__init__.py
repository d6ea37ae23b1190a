"""Component with one search box: it completes while the user types, and sends the text to search for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from crlc.data.imagenet_words import WORDS_ORIGIN

_HERE = Path(__file__).parent
_KEY = "search-box"


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"search.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_search_box", js=script, css=style)


def show_search_box(
    suggestions_url: str, *, query: str, nothing_found: str, searched: Callable[[str, str | None], None]
) -> None:
    """Show the box.

    Args:
        suggestions_url: URL that returns the suggestions for the parameter `q`.
        query: text of the search whose images the gallery lists; the box is emptied when there is none any more.
        nothing_found: what the box shows below a text without suggestions.
        searched: receives the text and the kind of search, which is `None` for all, before the page runs again. The
            text is empty once the user empties the box of a search.
    """

    def receive(value: Any) -> None:
        kind = value.get("kind")
        searched(str(value.get("text", "")), None if kind is None else str(kind))

    data = {"url": suggestions_url, "query": query, "origin": WORDS_ORIGIN, "nothing": nothing_found}
    show_component(_load_component(), _KEY, {"search": receive}, data=data)
