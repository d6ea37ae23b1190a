"""Which keys do what on which page: one list, shown from the sidebar."""

from __future__ import annotations

from html import escape

import streamlit as st

KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "Label": (
        ("1 to 9, 0", "give the image the name beside the key; 0 is the tenth"),
        ("Space", "give it the suggested name: that of its cluster"),
        ("N", "find or add a name; Enter gives it, Esc leaves the box"),
        ("X", "exclude the image, or include it again"),
        ("S", "skip it for now"),
        ("Z", "take the last decision back"),
        ("← →", "the image before, the next image"),
    ),
    "Galleries": (
        ("← → ↑ ↓", "go from image to image"),
        ("Enter", "open the image"),
        ("Ctrl and click", "pick an image"),
        ("Shift and click", "pick all up to here"),
    ),
    "Explore, on the map": (
        ("← → ↑ ↓", "move; the image in the middle is shown"),
        ("Enter", "open it"),
        ("+ −", "zoom"),  # noqa: RUF001
        ("0 or F", "show all"),
        ("L, B, P", "lasso, box, or drag to move"),
        ("Shift and drag", "draw a lasso around images; Alt and drag: a box"),
        ("Ctrl and draw", "add to the chosen images"),
        ("Esc", "put the tool away; again: choose nothing"),
    ),
    "Everywhere": (
        ("Esc", "close what is open"),
        ("Tab", "the next button or box"),
        ("R", "show the page anew"),
    ),
}


def show_keyboard_button() -> None:
    """A button that opens the list."""
    if st.button("Keyboard", icon=":material/keyboard:", type="tertiary", key="show-keys", help="Which keys do what."):
        _show_keys()


@st.dialog("Keyboard", width="medium")
def _show_keys() -> None:
    st.html(keys_table())


def keys_table() -> str:
    """All keys as HTML."""
    parts = []
    for page, keys in KEYS.items():
        rows = "".join(
            f"<tr><td style='white-space:nowrap;padding:2px 18px 2px 0;font-weight:600'>{escape(key)}</td>"
            f"<td style='padding:2px 0'>{escape(text)}</td></tr>"
            for key, text in keys
        )
        heading = f"<caption style='text-align:left;font-weight:600;opacity:.7;padding:2px 0'>{escape(page)}</caption>"
        parts.append(
            f"<table style='border-collapse:collapse;margin-bottom:14px;break-inside:avoid'>{heading}{rows}</table>"
        )
    return f"<div style='columns:2 320px;column-gap:28px'>{''.join(parts)}</div>"
