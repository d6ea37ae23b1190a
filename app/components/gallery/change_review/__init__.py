"""Component that shows reassigned images between examples of their two clusters; each can be accepted or rejected.

All images come in one response, or in a few if there are more than one response may have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app.components.common.component_events import show_component
from app.components.common.numbered_edits import EDITS_SCRIPT
from app.components.gallery.image_grid import LOADER_SCRIPT, Tile
from app.components.gallery.tiles import build_tile_images_url, build_tiles
from app.urls import MAX_GALLERY_IMAGES
from app.view_models.cluster_view import MOST_CONFIDENT, RunView
from app.view_models.numbered_edits import EditSession

_HERE = Path(__file__).parent
_EXAMPLES_PER_CLUSTER = 3


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


def show_reassigned_images(view: RunView, groups: Sequence[ReviewGroup], *, key: str) -> None:
    """Show groups of reassigned images that cannot be edited.

    Args:
        view: the newer run.
        groups: the groups, in order.
        key: key of the component.
    """
    _load_component()(key=key, data=_build_data(view, groups) | {"key": key, "is_editable": False})


def show_change_review(
    view: RunView,
    groups: Sequence[ReviewGroup],
    session: EditSession,
    *,
    key: str,
    edited: Callable[[Any], None],
    opened: Callable[[int], None],
    expanded: Callable[[str], None],
) -> None:
    """Show groups of reassigned images, to accept or reject.

    Args:
        view: the newer run.
        groups: the groups, in order.
        session: the edits that were applied.
        key: key of the component.
        edited: receives labels and names, which `app.view_models.numbered_edits` parses.
        opened: receives the id of an image to open.
        expanded: receives the key of a group of which more images are requested.
    """
    data = {"key": key, "is_editable": True, "window": session.window, "answered": session.answered}
    receivers: dict[str, Callable[[Any], object]] = {
        "work": edited,
        "opened": lambda value: opened(int(value)),
        "expanded": lambda value: expanded(str(value)),
    }
    show_component(_load_component(), key, receivers, data=_build_data(view, groups) | data)


def build_side(view: RunView, cluster: int) -> ClusterSide:
    """Return a cluster with its most confident images; unlike the most typical ones, they need no neighbour search."""
    rows = view.sort_rows(np.flatnonzero(view.clusters == cluster), MOST_CONFIDENT)[:_EXAMPLES_PER_CLUSTER]
    return ClusterSide(
        number=cluster,
        title=view.format_cluster(cluster),
        colour=view.get_colour(cluster),
        name=view.cluster_names.get(cluster, ""),
        examples=build_tiles(view, rows),
    )


def _build_data(view: RunView, groups: Sequence[ReviewGroup]) -> dict[str, Any]:
    """Return the groups, and the URLs of their images in the order of the component with the number of each."""
    tiles = [tile for group in groups for tile in (*group.before.examples, *group.images, *group.after.examples)]
    parts = [tiles[start : start + MAX_GALLERY_IMAGES] for start in range(0, len(tiles), MAX_GALLERY_IMAGES)]
    return {
        "groups": [asdict(group) for group in groups],
        "images": [[build_tile_images_url(view, part), len(part)] for part in parts],
    }
