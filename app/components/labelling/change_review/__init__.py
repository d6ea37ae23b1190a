"""Component that shows reassigned images between examples of their two clusters; each can be accepted or rejected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import build_callbacks
from app.components.common.numbered_edits import EDITS_SCRIPT
from app.components.gallery.image_grid import LOADER_SCRIPT, Tile
from app.view_models.numbered_edits import EditSession

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class ClusterSide:
    """The cluster of reassigned images in one of the two runs; its texts are safe text."""

    number: int
    title: str
    colour: str
    name: str
    """Label that the images would get; empty if the cluster has no name."""

    examples: Sequence[Tile]


@dataclass(frozen=True)
class ReviewGroup:
    """Images that both runs assign to the same two clusters."""

    key: str
    before: ClusterSide
    after: ClusterSide
    images: Sequence[Tile]
    labels: Sequence[str | None]
    """Current label of each image."""

    total: int
    """Number of images of the group, of which `images` are the first."""

    can_expand: bool
    """True if more images can be shown on request."""


@cache
def _load_component() -> Any:
    files = (LOADER_SCRIPT, EDITS_SCRIPT, _HERE / "review.js")
    script = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return st.components.v2.component("crlc_change_review", js=script, css=(_HERE / "review.css").read_text("utf-8"))


def show_change_review(
    groups: Sequence[ReviewGroup],
    image_urls: Sequence[tuple[str, int]],
    session: EditSession,
    *,
    key: str,
    edited: Callable[[Any], None],
    opened: Callable[[int], None],
    expanded: Callable[[str], None],
) -> None:
    """Show groups of reassigned images.

    Args:
        groups: the groups, in order.
        image_urls: URLs that return the images of all groups, and their numbers of images: of each group, the examples
            before, the reassigned images, and the examples now.
        session: the edits that were applied.
        key: key of the component.
        edited: receives labels and names, which `app.view_models.numbered_edits` parses.
        opened: receives the id of an image to open.
        expanded: receives the key of a group of which more images are requested.
    """
    data = {
        "groups": [asdict(group) for group in groups],
        "images": [list(one) for one in image_urls],
        "window": session.window,
        "answered": session.answered,
    }
    callbacks = build_callbacks(
        key,
        work=edited,
        opened=lambda value: opened(int(value)),
        expanded=lambda value: expanded(str(value)),
    )
    _load_component()(key=key, data=data, **callbacks)
