"""What a person looks at on Explore and Clusters: chosen and opened images, filters, pages, and the last edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

_KEY = "exploring"
Ids = NDArray[np.int64]


@dataclass
class Choice:
    """Some images that a person means."""

    ids: Ids
    title: str
    is_ordered: bool = False
    """Whether the order of the ids is the one to show them in."""


@dataclass
class Exploring:
    """Of one subject; another one begins anew."""

    subject: tuple[str, str] = ("", "")
    choice: Choice | None = None
    opened: int | None = None
    """The image that is shown large."""

    focus: int | None = None
    """The image with a ring on the map."""

    focus_moves: bool = False
    turn: int = 0
    hidden: dict[str, list[int]] = field(default_factory=dict)
    """Values hidden in the legend, by what points are coloured by."""

    pages: dict[str, int] = field(default_factory=dict)
    picks: list[int] = field(default_factory=list)
    cluster: int | None = None
    """The cluster that is open on Clusters."""

    merging: list[int] = field(default_factory=list)
    """The clusters that are ticked."""

    saved: str | None = None
    """What was written last; set only after it is on the disk."""

    problem: str | None = None
    has_news: bool = False
    """Whether a part that runs by itself changed something that the whole page shows."""


def exploring(kind: str = "", name: str = "") -> Exploring:
    """What is remembered of a subject; of the last one when none is named."""
    kept = st.session_state.get(_KEY)
    if kept is None or (name and kept.subject != (kind, name)):
        kept = st.session_state[_KEY] = Exploring((kind, name))
    return kept


def choose(ids: Ids, title: str, *, is_ordered: bool = False) -> None:
    """Take some images as the choice; none of them means no choice."""
    state = exploring()
    state.choice = Choice(ids, title, is_ordered) if len(ids) else None
    state.pages.clear()
    state.picks = []


def clear_choice() -> None:
    """Mean no images in particular."""
    choose(np.empty(0, np.int64), "")


def open_image(image_id: int) -> None:
    """Show an image large."""
    state = exploring()
    state.opened = state.focus = image_id
    state.focus_moves = False
    state.turn += 1


def close_image() -> None:
    """Show no image large."""
    exploring().opened = None


def show_on_map(image_id: int) -> None:
    """Go to an image's place on the map."""
    state = exploring()
    state.opened, state.focus, state.focus_moves = None, image_id, True
    state.turn += 1


def open_cluster(cluster: int | None) -> None:
    """Look into one cluster, or at all of them."""
    state = exploring()
    state.cluster, state.picks = cluster, []
    state.pages.clear()


def tick_cluster(cluster: int) -> None:
    """Tick a cluster for merging, or take the tick away."""
    exploring().merging = sorted({cluster} ^ set(exploring().merging))


def pick(ids: Sequence[int]) -> None:
    """Pick images for what is done next."""
    exploring().picks = list(ids)


def clear_picks() -> None:
    """Pick no images."""
    pick([])


def turn_page(name: str, to: int) -> None:
    """Go to another page of a gallery."""
    exploring().pages[name] = to


def leave_news() -> None:
    """From a part that runs by itself: the whole page is to run again."""
    exploring().has_news = True


def take_news() -> bool:
    """Whether there is such a wish; it is said once."""
    state = exploring()
    state.has_news, had = False, state.has_news
    return had


def box(key: str) -> Any:
    """What is in a box of the page; none while it was not shown."""
    return st.session_state.get(key)


def fill_box(key: str, value: Any) -> None:
    """Put something into a box, before it is shown."""
    st.session_state[key] = value


def remembered(key: str, usual: Any, options: Sequence[Any]) -> Any:
    """Make a box start with what was chosen last, also after another page: Streamlit forgets boxes it does not show.

    Returns:
        the value, which the box has already.
    """
    last = f"{key}-last"
    value = st.session_state[key] if key in st.session_state else st.session_state.get(last, usual)
    if value not in options:
        value = usual
    st.session_state[key] = st.session_state[last] = value
    return value
