"""Component that shows one image with zoom and pan, its name, and buttons for the previous and next image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class LightboxImage:
    """The image that a lightbox shows; its texts are safe text."""

    id: int
    name: str
    path: str
    """Path to copy."""

    url: str
    """URL of the image as large as the screen."""

    original_url: str
    """URL of the image at its original resolution, loaded when the user zooms in."""

    width: int | None
    height: int | None
    """Size of the original in pixels."""

    position: str
    """Position in the gallery."""

    has_previous: bool
    has_next: bool
    can_reveal: bool
    """True if the file manager can show the file."""

    preload: tuple[str, ...] = ()
    """URLs of images that may be shown next."""


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"lightbox.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_lightbox", js=script, css=style)


def show_lightbox(
    image: LightboxImage, *, key: str, stepped: Callable[[int], None], revealed: Callable[[], None]
) -> None:
    """Show an image.

    Args:
        image: the image.
        key: key of the component.
        stepped: receives 1 for the next image and -1 for the previous one, before the page runs again.
        revealed: called when the user wants to see the file in its folder.
    """
    receivers: dict[str, Callable[[Any], object]] = {
        "stepped": lambda step: stepped(1 if int(step) > 0 else -1),
        "revealed": lambda _: revealed(),
    }
    show_component(_load_component(), key, receivers, data=asdict(image))
