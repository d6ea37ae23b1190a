"""Search box of the Explore page: its result is listed in the gallery and selected, like the images of a lasso."""

from __future__ import annotations

from app.components.explore.search_box import show_search_box
from app.server.routes.search import build_suggestions_url
from app.state.exploring import clear_selection, get_explore_state, record_edit, select_images
from app.view_models.cluster_view import ClusterView
from app.view_models.words import FoundImages, describe_empty_search, get_text_search
from crlc.errors import CrlcError
from crlc.paths import to_printable

_MAX_TITLE_CHARACTERS = 40


def show_text_search(view: ClusterView) -> None:
    """Show the search box."""

    def search(text: str, kind: str | None) -> None:
        if not text.strip():
            clear_selection()
            return
        shown = to_printable(text)
        if len(shown) > _MAX_TITLE_CHARACTERS:
            shown = f"{shown[:_MAX_TITLE_CHARACTERS]}…"
        try:
            result = get_text_search(view).search(text, kind)
        except CrlcError as error:  # the text encoder cannot be loaded
            _report(str(error))
            return
        if not len(result.ids):  # Enter was pressed before the suggestions said so; the page stays as it is
            _report(describe_empty_search(view, shown))
            return
        title = f"found for {kind} {shown}" if kind else f"found for {shown}"
        found = FoundImages.from_result(text, result)
        select_images(result.ids, title, is_ordered=True, are_picked=True, found=found)

    listing = get_explore_state().selection
    query = "" if listing is None or listing.found is None else listing.found.text
    show_search_box(
        build_suggestions_url(view), query=query, nothing_found=describe_empty_search(view), searched=search
    )


def _report(problem: str) -> None:
    record_edit(None)
    get_explore_state().problem = problem
