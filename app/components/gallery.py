"""Rows of thumbnails from our own route, with their aspect kept."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import streamlit as st

from app.image_routes import image_url
from crlc.data.manifest import ImageRecord
from crlc.data.thumbnails import is_tiny
from crlc.names import printable

_SIDE = 160


def show_strip(dataset: str, images: Iterable[tuple[ImageRecord, str]], height: int = 84) -> None:
    """Images with a word under each.

    Args:
        dataset: whose they are.
        images: records, and what to say of each.
        height: of an image, in pixels.
    """
    cells = "".join(_cell(dataset, record, text, height) for record, text in images)
    st.html(f"<div style='display:flex;flex-wrap:wrap;gap:10px 8px'>{cells}</div>")


def _cell(dataset: str, record: ImageRecord, text: str, height: int) -> str:
    rendering = "pixelated" if is_tiny(record) else "auto"
    address = escape(image_url(dataset, record.id, record.hash or "", _SIDE), quote=True)
    name = escape(printable(record.path), quote=True)
    shape = record.width / record.height if record.width and record.height else 1.0
    width = round(min(2.0, max(0.5, shape)) * height)  # known before it is loaded: nothing moves
    return (
        f"<figure style='margin:0;width:{width}px'><img src='{address}' loading='lazy' alt='{name}' title='{name}' "
        f"style='width:{width}px;height:{height}px;object-fit:contain;border-radius:4px;background:#8882;"
        f"image-rendering:{rendering}'><figcaption style='font-size:.75rem;opacity:.7;text-align:center;"
        f"white-space:nowrap'>{escape(text)}</figcaption></figure>"
    )
