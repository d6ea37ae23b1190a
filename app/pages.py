"""The pages of the app, in the order of work: each is a module in `app/views` with a function `render`."""

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
    """One page."""

    name: str
    """Of its module, and in its address."""

    title: str
    icon: str
    """Of Material Symbols."""


PAGES = (
    PageEntry("start", "Start", "add_photo_alternate"),
    PageEntry("train", "Train", "model_training"),
    PageEntry("explore", "Explore", "bubble_chart"),
    PageEntry("clusters", "Clusters", "category"),
    PageEntry("label", "Label", "label"),
    PageEntry("runs", "Runs", "stacked_line_chart"),
    PageEntry("export", "Export", "ios_share"),
)


def navigation() -> st.Page:
    """Show the list of pages; returns the one to run now."""
    st.logo(str(WORDMARK), size="large", icon_image=str(ICON))
    return st.navigation([_page(entry) for entry in PAGES])


def has_page(name: str) -> bool:
    """Whether there is such a page."""
    return any(entry.name == name for entry in PAGES)


def link_to(name: str, label: str, help: str | None = None) -> None:
    """A link to a page; nothing where there is no such page."""
    for entry in PAGES:
        if entry.name == name:
            st.page_link(_page(entry), label=label, icon=f":material/{entry.icon}:", help=help)


def go_to(name: str) -> None:
    """Leave for another page."""
    st.switch_page(next(_page(entry) for entry in PAGES if entry.name == name))


def _page(entry: PageEntry) -> st.Page:
    is_first = entry is PAGES[0]
    icon = f":material/{entry.icon}:"
    return st.Page(_renderer(entry.name), title=entry.title, icon=icon, url_path=entry.name, default=is_first)


def _renderer(name: str) -> Callable[[], None]:
    def render() -> None:
        import_module(f"app.views.{name}").render()

    return render
