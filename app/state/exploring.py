"""Session state of the Explore and Clusters pages: selected and open images, filters, pages, and the last edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import streamlit as st

from crlc.arrays import ImageIds

_KEY = "exploring"


@dataclass
class SelectedImages:
    """Images that the user selected."""

    ids: ImageIds
    title: str
    is_ordered: bool = False
    """True if the images are shown in the order of the ids."""


@dataclass
class ExploreState:
    """State of one view; another view starts with an empty state."""

    view_key: tuple[str, str] = ("", "")
    """Kind and name of the view."""

    selection: SelectedImages | None = None
    open_image: int | None = None
    """The image in the dialog."""

    focus: int | None = None
    """The image marked with a ring on the map."""

    pan_to_focus: bool = False
    focus_count: int = 0
    """Number of focus requests so far: a new number makes the map react to the same image again."""

    hidden_values: dict[str, list[int]] = field(default_factory=dict)
    """Values hidden in the legend, by colouring."""

    gallery_pages: dict[str, int] = field(default_factory=dict)
    """Current page of each gallery, by its name."""

    picked_ids: list[int] = field(default_factory=list)
    """Images ticked in a gallery, to which the next action applies; a subset of what the gallery shows."""

    cluster: int | None = None
    """The cluster that is open on the Clusters page."""

    clusters_to_merge: list[int] = field(default_factory=list)
    """The clusters whose checkbox is set."""

    saved: str | None = None
    """Description of the last edit; set only after it was written to disk."""

    problem: str | None = None
    """Error of the last edit; `None` if it succeeded."""

    needs_rerun: bool = False
    """True if a fragment changed something that the whole page shows."""


def get_explore_state(kind: str = "", name: str = "") -> ExploreState:
    """Return the state of the given view, by default of the last one.

    Another view than the last starts with an empty state.
    """
    state = st.session_state.get(_KEY)
    if state is None or (name and state.view_key != (kind, name)):
        state = st.session_state[_KEY] = ExploreState((kind, name))
    return state


def select_images(ids: ImageIds, title: str, *, is_ordered: bool = False) -> None:
    """Select images; an empty array clears the selection."""
    state = get_explore_state()
    state.selection = SelectedImages(ids, title, is_ordered) if len(ids) else None
    state.gallery_pages.clear()
    state.picked_ids = []


def clear_selection() -> None:
    """Clear the selection."""
    select_images(np.empty(0, np.int64), "")


def open_image(image_id: int) -> None:
    """Open the dialog of an image."""
    state = get_explore_state()
    state.open_image = state.focus = image_id
    state.pan_to_focus = False
    state.focus_count += 1


def close_image() -> None:
    """Close the dialog of an image."""
    get_explore_state().open_image = None


def show_on_map(image_id: int) -> None:
    """Pan the map to an image."""
    state = get_explore_state()
    state.open_image, state.focus, state.pan_to_focus = None, image_id, True
    state.focus_count += 1


def open_cluster(cluster: int | None) -> None:
    """Open one cluster; `None` to show all clusters."""
    state = get_explore_state()
    state.cluster, state.picked_ids = cluster, []
    state.gallery_pages.clear()


def pick_images(ids: Sequence[int]) -> None:
    """Set the images that the next action applies to."""
    get_explore_state().picked_ids = list(ids)


def clear_picks() -> None:
    """Clear the picked images."""
    pick_images([])


def set_page(name: str, to: int) -> None:
    """Open a page of a gallery."""
    get_explore_state().gallery_pages[name] = to


def request_rerun() -> None:
    """Request a rerun of the whole page from a fragment."""
    get_explore_state().needs_rerun = True


def pop_rerun_request() -> bool:
    """Return whether a rerun was requested, and clear the request."""
    state = get_explore_state()
    is_requested, state.needs_rerun = state.needs_rerun, False
    return is_requested
