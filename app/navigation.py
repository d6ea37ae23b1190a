"""Registry of the pages, in the order of the workflow; each is a module in `app/pages` with a function `render`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import streamlit as st

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
    PageEntry("runs", "Runs", "stacked_line_chart", "Compare runs and select the one to show."),
    PageEntry("export", "Export", "ios_share", "Export your results."),
)


def show_navigation() -> st.Page:
    """Show the list of pages, and return the one to run now."""
    st.logo(str(WORDMARK), size="large", icon_image=str(ICON))
    return st.navigation([_build_page(entry) for entry in PAGES])


def get_page(name: str) -> PageEntry:
    """Return the page with this name.

    Raises:
        KeyError: there is no such page.
    """
    return {entry.name: entry for entry in PAGES}[name]


def link_to(name: str, label: str, help: str | None = None) -> None:
    """Show a link to a page."""
    entry = get_page(name)
    st.page_link(_build_page(entry), label=label, icon=f":material/{entry.icon}:", help=help)


def go_to(name: str) -> None:
    """Open another page."""
    st.switch_page(_build_page(get_page(name)))


def _build_page(entry: PageEntry) -> st.Page:
    is_first = entry is PAGES[0]
    icon = f":material/{entry.icon}:"
    return st.Page(_build_renderer(entry.name), title=entry.title, icon=icon, url_path=entry.name, default=is_first)


def _build_renderer(name: str) -> Callable[[], None]:
    def render() -> None:
        import_module(f"app.pages.{name}").render()

    return render
