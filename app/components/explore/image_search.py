"""Search by image on the Explore page: receives a file, searches in the background, and lists the similar images."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from app.background.tasks import BackgroundTask, dismiss_task, get_task, start_task
from app.components.common.polling import show_task
from app.components.explore.image_drop import read_dropped_file, show_image_drop
from app.components.map.scatter_map import Marker
from app.state.exploring import get_explore_state, select_images
from app.view_models.cluster_view import ClusterView
from app.view_models.image_search import ImageSearchResult, search_view_by_image
from app.view_models.words import FoundImages
from crlc.progress import Progress

_PROMPT_SECONDS = 0.6
"""A search with a loaded network ends within this time; the page then shows no progress."""


def show_image_search(view: ClusterView) -> None:
    """Show the button that searches for images similar to a file."""

    def start(value: Any) -> None:
        state = get_explore_state()
        if state.search_task is not None:
            dismiss_task(state.search_task)
        state.search_task = f"image-search-{uuid4().hex}"

        def run(task: BackgroundTask) -> None:
            # The first search imports torch and loads the network, which takes seconds.
            task.report(Progress("Loading the network", 0, None, 0.0))
            task.result = search_view_by_image(view, read_dropped_file(value))

        start_task(state.search_task, "Search by image", run).wait(_PROMPT_SECONDS)

    show_image_drop(is_disabled=view.is_growing, received=start)


def show_image_search_progress() -> None:
    """Show the progress of a search, or the error that ended it."""
    key = get_explore_state().search_task
    if key is not None:
        show_task(key)


def list_found_images() -> None:
    """List the result of a search that has ended in the gallery; call it before the gallery is shown."""
    state = get_explore_state()
    task = None if state.search_task is None else get_task(state.search_task)
    if task is None or task.is_running or not isinstance(task.result, ImageSearchResult):
        return
    result = task.result
    found = FoundImages.from_similarities(result.ids, result.similarity)
    select_images(result.ids, result.title, is_ordered=True, are_picked=True, placed=result.placed, found=found)
    assert state.search_task is not None
    dismiss_task(state.search_task)
    state.search_task = None


def build_marker(view: ClusterView, method: str) -> Marker | None:
    """Return the marker of the image whose similar images are listed; `None` if there is none."""
    listing = get_explore_state().selection
    if listing is None or listing.placed is None:
        return None
    place = listing.placed.place(view, method)
    return None if place is None else Marker(*place, listing.placed.caption)
