"""Registry of the pages, in the order of the workflow; each is a module in `app/pages` with a function `render`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import streamlit as st

from app.state.selection import build_url_parameters

PAGE_LINKS = "page-links"
"""Key of the container of the links to all pages."""

_ASSETS = Path(__file__).resolve().parents[1] / "assets"
ICON, WORDMARK = _ASSETS / "icon.svg", _ASSETS / "wordmark.svg"


@dataclass(frozen=True)
class PageEntry:
    """A page and its entry in the list of pages."""

    name: str
    """Name of the page's module; also its path in the URL."""

    title: str
    icon: str
    """Name in Material Symbols."""

    purpose: str
    """Task of the user on the page, in one line beside the title."""


PAGES = (
    PageEntry("start", "Start", "add_photo_alternate", "Group a folder of unlabelled images automatically."),
    PageEntry("train", "Train", "model_training", "Train a clustering and follow its progress."),
    PageEntry("explore", "Explore", "bubble_chart", "Explore similar images and select groups."),
    PageEntry("clusters", "Clusters", "category", "Review, name and fix clusters."),
    PageEntry("label", "Label", "label", "Label a few images; the next run learns from them."),
    PageEntry("duplicates", "Duplicates", "content_copy", "Keep the best image of each group of duplicates."),
    PageEntry("runs", "Runs", "stacked_line_chart", "Compare runs and select the one to show."),
    PageEntry("export", "Export", "ios_share", "Export your results."),
)


def show_navigation() -> st.Page:
    """Register the pages, and return the one to run now; `show_page_links` shows the links to them."""
    st.logo(str(WORDMARK), size="large", icon_image=str(ICON))
    return st.navigation([_build_page(entry) for entry in PAGES], position="hidden")


def show_page_links() -> None:
    """Show the links to all pages.

    Unlike those of `st.navigation`, they carry the selection. Without it, every change of the page would add two
    entries to the history of the browser, and Back would have to be pressed twice.
    """
    with st.container(key=PAGE_LINKS, gap="xsmall"):
        for entry in PAGES:
            st.page_link(
                _build_page(entry), label=entry.title, icon=f":material/{entry.icon}:", width="stretch",
                query_params=_build_link_parameters(),
            )  # fmt: skip


def get_page(name: str) -> PageEntry:
    """Return the page with this name.

    Raises:
        KeyError: there is no such page.
    """
    return {entry.name: entry for entry in PAGES}[name]


def link_to(name: str, label: str, help: str | None = None) -> None:
    """Show a link to a page."""
    entry = get_page(name)
    icon = f":material/{entry.icon}:"
    st.page_link(_build_page(entry), label=label, icon=icon, help=help, query_params=_build_link_parameters())


def go_to(name: str) -> None:
    """Open another page."""
    st.switch_page(_build_page(get_page(name)), query_params=_build_link_parameters())


def _build_link_parameters() -> dict[str, str]:
    return {name: value for name, value in build_url_parameters().items() if value is not None}


def _build_page(entry: PageEntry) -> st.Page:
    is_first = entry is PAGES[0]
    icon = f":material/{entry.icon}:"
    return st.Page(_build_renderer(entry.name), title=entry.title, icon=icon, url_path=entry.name, default=is_first)


def _build_renderer(name: str) -> Callable[[], None]:
    def render() -> None:
        import_module(f"app.pages.{name}").render()

    return render
