"""Component that receives an image file to search for: chosen with a button, dropped on the page, or pasted."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from crlc.errors import SourceError
from crlc.paths import to_printable
from crlc.services.search_by_image import ImageFile

_HERE = Path(__file__).parent
_KEY = "image-drop"
_MAX_BYTES = 60_000_000


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"drop.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_image_drop", js=script, css=style)


def show_image_drop(*, is_disabled: bool, received: Callable[[Any], None]) -> None:
    """Show the button, and receive files that are dropped on the page or pasted.

    Args:
        is_disabled: True if files are not accepted now.
        received: receives the value from the browser for `read_dropped_file`, before the page runs again.
    """
    data = {"disabled": is_disabled, "limit": _MAX_BYTES}
    show_component(_load_component(), _KEY, {"file": received}, data=data)


def read_dropped_file(value: Any) -> ImageFile:
    """Return the file that the browser sent.

    Raises:
        SourceError: the file is too large, or did not arrive complete.
    """
    name = str(value.get("name") or "pasted image")
    content = value.get("content")
    if content is None:
        raise SourceError(
            f"{to_printable(name)} is too large to search for: an image may have at most {_MAX_BYTES // 10**6} MB.",
            advice="Choose a smaller copy of the image.",
        )
    try:
        return ImageFile(b64decode(content, validate=True), name)
    except (binascii.Error, ValueError, TypeError):
        raise SourceError(f"{to_printable(name)} did not arrive complete.", advice="Try again.") from None
