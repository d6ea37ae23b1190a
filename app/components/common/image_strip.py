"""Images of a dataset in rows of equal height, without a view: shown before anything was computed."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import streamlit as st

from app.urls import build_image_url
from crlc.data.manifest import ImageRecord

_THUMBNAIL_PIXELS = 160


def show_image_strip(name: str, records: Iterable[ImageRecord], *, height: int, wrap: bool = False) -> None:
    """Show images beside each other.

    Args:
        name: name of the dataset.
        records: the images.
        height: height of an image in pixels.
        wrap: whether images that do not fit go to the next row; by default they are left out.
    """
    images = format_images(name, records, height=height)
    first_row = "" if wrap else f"height:{height}px;overflow:hidden"  # an image that is cut looks like an error
    st.html(f"<div style='display:flex;flex-wrap:wrap;gap:6px;{first_row}'>{images}</div>")


def format_images(name: str, records: Iterable[ImageRecord], *, height: int) -> str:
    """Return images as HTML elements of one height.

    Args:
        name: name of the dataset.
        records: the images.
        height: height of an image in pixels.
    """
    return "".join(
        f"<img src='{escape(build_image_url(name, record.id, record.hash or '', _THUMBNAIL_PIXELS))}' "
        f"loading='lazy' alt='' style='flex:none;width:{_compute_width(record, height)}px;height:{height}px;"
        "object-fit:contain;border-radius:4px;background:#8882'>"
        for record in records
    )


def _compute_width(record: ImageRecord, height: int) -> int:
    """Return the width of an image; set in advance, so that nothing moves when the image loads."""
    if not record.width or not record.height:
        return height
    return round(min(2.0, max(0.5, record.width / record.height)) * height)
