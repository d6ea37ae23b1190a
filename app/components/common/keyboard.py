"""Keyboard shortcuts of all pages: one list, opened from the sidebar."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.state.exploring import close_image

KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "Label": (
        ("1 to 9, 0", "label the image with the name beside the key; 0 is the tenth"),
        ("Space", "label the image with the name of its cluster"),
        ("N", "find or add a name; Enter labels the image, Esc cancels"),
        ("X", "exclude the image, or include it again"),
        ("S", "skip the image"),
        ("Z", "undo the last decision"),
        ("← →", "previous image, next image"),
    ),
    "Duplicates": (
        ("Space", "keep the marked images of the group, exclude the others"),
        ("1 to 9", "keep only this image"),
        ("A", "keep all images of the group"),
        ("Z", "undo the last decision"),
        ("← →", "previous group, next group"),
    ),
    "Clusters": (
        ("Tab, Enter", "in a name: save it and go to the next name"),
        ("Shift + Tab", "in a name: go to the other controls of the card"),
        ("Esc", "in a name: restore the saved name"),
    ),
    "Everywhere": (
        ("?", "show the keyboard shortcuts"),
        ("Esc", "close the dialog"),
        ("Tab", "go to the next control"),
        ("R", "refresh the page"),
    ),
    "Galleries": (
        ("← → ↑ ↓", "move between images"),
        ("Enter", "open the image"),
        ("Space, Ctrl + click", "select an image"),
        ("Shift + Space or click", "select all images up to this one"),
    ),
    "Open image": (
        ("← →", "previous image, next image of the gallery"),
        ("+ −", "zoom; drag to move"),  # noqa: RUF001
        ("0", "show the whole image"),
        ("1", "show the pixels of the original"),
    ),
    "Map": (
        ("← → ↑ ↓", "move the map; the image in the middle is shown"),
        ("Enter", "open the image in the middle"),
        ("+ −", "zoom"),  # noqa: RUF001
        ("0 or F", "show the whole map"),
        ("L, B, P", "lasso, box, or pan tool"),
        ("Shift + drag", "select images with a lasso"),
        ("Alt + drag", "select images with a box"),
        ("Ctrl while drawing", "add to the selection"),
        ("Esc", "cancel the tool; press again to clear the selection"),
    ),
}


_KEY_STYLE = "white-space:nowrap;padding:1px 14px 1px 0;font-weight:600;vertical-align:top"
_TABLE_STYLE = "border-collapse:collapse;margin-bottom:10px;break-inside:avoid;font-size:.9rem;line-height:1.35"


def show_keyboard_button() -> None:
    """Show the button that opens the list of shortcuts."""
    if st.button(
        "Keyboard shortcuts",
        icon=":material/keyboard:",
        type="tertiary",
        key="show-keys",
        help="Shows the keyboard shortcuts (key ?).",
    ):
        show_keys()


def show_keys() -> None:
    """Open the list of shortcuts instead of an image."""
    close_image()  # there is one dialog at a time, and Streamlit may have dropped the message that the other was closed
    _open_dialog()


@st.dialog("Keyboard shortcuts", width="large")
def _open_dialog() -> None:
    st.html(format_keys())


def format_keys() -> str:
    """Return all shortcuts as HTML."""
    parts = []
    for page, keys in KEYS.items():
        rows = "".join(
            f"<tr><td style='{_KEY_STYLE}'>{escape(key)}</td><td style='padding:1px 0'>{escape(text)}</td></tr>"
            for key, text in keys
        )
        heading = f"<caption style='text-align:left;font-weight:600;opacity:.7;padding:2px 0'>{escape(page)}</caption>"
        parts.append(f"<table style='{_TABLE_STYLE}'>{heading}{rows}</table>")
    return f"<div style='columns:3 260px;column-gap:28px'>{''.join(parts)}</div>"
