"""Buttons with words that describe images: one click uses a word as a name or label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.components.common.safe_text import escape_markdown, show_caption
from app.view_models.words import describe_suggested_name
from crlc.data.imagenet_words import WORDS_ORIGIN
from crlc.services.words import SuggestedName


def show_word_buttons(words: Sequence[SuggestedName], *, key: str, choose: Callable[[str], None]) -> None:
    """Show a button for each word, and where the words come from; nothing without words.

    Args:
        words: the words, the best first.
        key: prefix of the widget keys.
        choose: receives the word of the clicked button, before the page runs again.
    """
    if not words:
        return
    with st.container(horizontal=True, gap="small"):
        for index, word in enumerate(words):
            st.button(
                escape_markdown(word.name),
                key=f"{key}-{index}",
                on_click=choose,
                args=(word.name,),
                help=describe_suggested_name(word),
            )
    show_caption(f"Suggested: {WORDS_ORIGIN}")
