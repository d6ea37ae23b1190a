"""Component that shows clusters as cards: header, typical images and name field; one response has all images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from app.components.common.numbered_edits import EDITS_SCRIPT
from app.components.gallery.image_grid import LOADER_SCRIPT, Tile
from crlc.data.imagenet_words import WORDS_ORIGIN

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class CardWord:
    """A word that describes a cluster, as a suggestion for its name."""

    name: str
    lift: float
    help: str
    """Tooltip."""


@dataclass(frozen=True)
class ClusterCard:
    """One cluster; its texts are safe text."""

    number: int
    title: str
    name: str
    """Name given by the user; empty without one."""

    colour: str
    size: str
    """Number of images, as text."""

    confidence: float | None
    """Mean confidence, from 0 to 1; `None` for a cluster without images and before training."""

    closest: str
    """The closest cluster; empty if there is none."""

    help: str
    """Tooltip of confidence and closest cluster."""

    images: Sequence[Tile]
    words: Sequence[CardWord] | None = None
    """Suggested names, the best first; empty if no word fits, `None` if none were computed."""


@dataclass(frozen=True)
class CardEditing:
    """Names and selections that the user can change on the cards."""

    receive: Callable[[Any], None]
    """Receives the changes, which `app.view_models.numbered_edits` parses."""

    window: str
    answered: int
    """Number of the last change of the window that was applied."""

    selected: Sequence[int]
    """Numbers of the selected clusters."""


@cache
def _load_component() -> Any:
    script = "\n".join(file.read_text(encoding="utf-8") for file in (LOADER_SCRIPT, EDITS_SCRIPT, _HERE / "cards.js"))
    return st.components.v2.component("crlc_cluster_cards", js=script, css=(_HERE / "cards.css").read_text("utf-8"))


def show_cluster_cards(
    cards: Sequence[ClusterCard],
    images_url: str,
    *,
    key: str,
    opened: Callable[[int], None],
    image_opened: Callable[[int], None],
    editing: CardEditing | None = None,
) -> None:
    """Show cards.

    Args:
        cards: the clusters, in order.
        images_url: URL that returns the images of all cards, in the same order.
        key: key of the component.
        opened: receives the number of a cluster to open, before the page runs again.
        image_opened: receives the id of a clicked image.
        editing: names and selections; `None` if the clusters cannot be edited.
    """
    data: dict[str, Any] = {
        "cards": [asdict(card) for card in cards],
        "images": images_url,
        "editing": editing is not None,
        "words": WORDS_ORIGIN,
    }
    if editing is not None:
        data |= {"window": editing.window, "answered": editing.answered, "selected": list(editing.selected)}
    receivers: dict[str, Callable[[Any], object]] = {
        "opened": lambda value: opened(int(value)),
        "image": lambda value: image_opened(int(value)),
    }
    if editing is not None:
        receivers["work"] = editing.receive
    show_component(_load_component(), key, receivers, data=data | {"key": key})
