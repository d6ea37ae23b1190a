"""Session state of the Explore and Clusters pages: selected and open images, filters, pages, and the last edit."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import streamlit as st

from app.state.location import get_page_hash
from app.view_models.image_filters import ImageFilters
from app.view_models.image_search import PlacedImage
from app.view_models.words import FoundImages
from crlc.arrays import ImageIds

_KEY = "exploring"


@dataclass
class SelectedImages:
    """Images that a gallery lists instead of all: inside a lasso, of a legend entry, or similar to an image."""

    ids: ImageIds
    title: str
    is_ordered: bool = False
    """True if the images are shown in the order of the ids."""

    placed: PlacedImage | None = None
    """The file that the images are similar to; `None` for other lists."""

    found: FoundImages | None = None
    """The search by text or image that found the images; `None` for other lists."""


@dataclass
class ExploreState:
    """State of one view; another view starts with an empty state."""

    view_key: tuple[str, str] = ("", "")
    """Kind and name of the view."""

    filters: ImageFilters = field(default_factory=ImageFilters)
    shows_columns: bool = False
    """True if the histograms of the columns are shown beside the map."""

    shows_levels: bool = False
    """True if the slider for the number of clusters is shown."""

    filter_form: int = 0
    """Changes whenever filters change outside their form, which then gets new widgets.

    The form is in a closed popover: the browser would not show it the new values, and send the old ones back.
    """

    selection: SelectedImages | None = None
    open_image: int | None = None
    """The image in the dialog."""

    opened_on: str = ""
    """Page on which the dialog was opened, by its identifier in Streamlit."""

    listed_ids: ImageIds = field(default_factory=lambda: np.empty(0, np.int64))
    """Images of the gallery in their order, through which the dialog steps."""

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
    """The selected images, to which the next action applies: ticked in a gallery, or by a lasso."""

    cluster: int | None = None
    """The cluster that is open on the Clusters page."""

    clusters_to_merge: list[int] = field(default_factory=list)
    """The clusters whose checkbox is set."""

    level: int | None = None
    """Number of clusters of the preview; `None` to show the current clusters."""

    saved: str | None = None
    """Description of the last edit; set only after it was written to disk."""

    problem: str | None = None
    """Error of the last edit; `None` if it succeeded."""

    edit_id: int | None = None
    """Entry of the last edit in the history, which its message offers to undo; `None` if it cannot be undone."""

    edit_count: int = 0
    """Number of edits so far: each has its own message."""

    edited_at: float = -math.inf
    """Time of the last edit, by the monotonic clock."""

    search_task: str | None = None
    """Key of the background task that searches by image; `None` if its result is listed."""

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


def _get_state_behind_dialog() -> ExploreState:
    """Return the state for an action outside the dialog, which must be closed then.

    Streamlit drops the message that the dialog was closed if the next action follows at once.
    """
    state = get_explore_state()
    state.open_image = None
    return state


def select_images(
    ids: ImageIds,
    title: str,
    *,
    is_ordered: bool = False,
    are_picked: bool = False,
    placed: PlacedImage | None = None,
    found: FoundImages | None = None,
) -> None:
    """List images in the gallery; an empty array lists all images again.

    Args:
        ids: the images.
        title: describes the images after their number.
        is_ordered: True to show the images in the order of the ids.
        are_picked: True to select the images for the next action, too.
        placed: the file that the images are similar to.
        found: the search by text or image that found the images.
    """
    state = _get_state_behind_dialog()
    state.selection = SelectedImages(ids, title, is_ordered, placed, found) if len(ids) else None
    state.gallery_pages.clear()
    state.picked_ids = ids.tolist() if are_picked else []


def clear_selection() -> None:
    """Clear the selection."""
    select_images(np.empty(0, np.int64), "")


def set_filters(filters: ImageFilters, *, are_from_form: bool = False) -> None:
    """Set the filters; galleries start at their first page.

    Args:
        filters: the new filters.
        are_from_form: True if the widgets of the form show them already.
    """
    state = _get_state_behind_dialog()
    state.filters = filters
    state.filter_form += not are_from_form
    state.gallery_pages.clear()


def open_image(image_id: int) -> None:
    """Open the dialog of an image."""
    state = get_explore_state()
    state.open_image = state.focus = image_id
    state.opened_on = get_page_hash()
    state.pan_to_focus = False
    state.focus_count += 1


def close_image() -> None:
    """Close the dialog of an image."""
    get_explore_state().open_image = None


def close_image_of_another_page() -> None:
    """Close the dialog if it was opened on another page.

    Streamlit drops the message that the dialog was closed if the user opens another page at once.
    """
    if get_explore_state().opened_on != get_page_hash():
        close_image()


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


def set_level(level: int | None) -> None:
    """Show the clusters of a level; `None` for the current clusters."""
    state = _get_state_behind_dialog()
    state.level, state.cluster, state.clusters_to_merge = level, None, []
    state.gallery_pages.clear()


def show_columns(is_shown: bool) -> None:
    """Show or hide the histograms of the columns."""
    _get_state_behind_dialog().shows_columns = is_shown


def show_levels(is_shown: bool) -> None:
    """Show or hide the slider for the number of clusters; a preview stays."""
    _get_state_behind_dialog().shows_levels = is_shown


def pick_images(ids: Sequence[int]) -> None:
    """Set the images that the next action applies to."""
    _get_state_behind_dialog().picked_ids = list(ids)


def get_picks_among(ids: ImageIds) -> list[int]:
    """Return the selected images that are among the given ones: an action must not affect images of another page."""
    picks = np.asarray(get_explore_state().picked_ids, np.int64)
    return [int(image_id) for image_id in np.intersect1d(ids, picks)]


def change_picks(added: Sequence[int], removed: Sequence[int]) -> None:
    """Add images to those that the next action applies to, and remove others."""
    pick_images(sorted((set(get_explore_state().picked_ids) | set(added)) - set(removed)))


def clear_picks() -> None:
    """Clear the picked images."""
    pick_images([])


def record_edit(entry_id: int | None) -> None:
    """Record the entry of an edit in the history, so that its message can offer to undo it."""
    state = get_explore_state()
    state.edit_id, state.edited_at = entry_id, time.monotonic()
    state.edit_count += 1


def set_page(name: str, to: int) -> None:
    """Open a page of a gallery."""
    _get_state_behind_dialog().gallery_pages[name] = to


def set_hidden_values(by: str, values: list[int]) -> None:
    """Set the values of a colouring that are hidden in the legend."""
    state = _get_state_behind_dialog()
    state.hidden_values[by] = values
    state.gallery_pages.clear()


def request_rerun() -> None:
    """Request a rerun of the whole page from a fragment."""
    get_explore_state().needs_rerun = True


def pop_rerun_request() -> bool:
    """Return whether a rerun was requested, and clear the request."""
    state = get_explore_state()
    is_requested, state.needs_rerun = state.needs_rerun, False
    return is_requested
