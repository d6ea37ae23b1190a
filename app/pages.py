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

    purpose: str
    """What a person does there, in one line beside the title."""


PAGES = (
    PageEntry("start", "Start", "add_photo_alternate", "Find the groups in a folder of images nobody has labelled."),
    PageEntry("train", "Train", "model_training", "Find groups in the images, and watch how it goes."),
    PageEntry("explore", "Explore", "bubble_chart", "See which images are alike, and choose some."),
    PageEntry("clusters", "Clusters", "category", "Look into the groups, name and correct them."),
    PageEntry("label", "Label", "label", "Say what some images are; the next run learns it."),
    PageEntry("runs", "Runs", "stacked_line_chart", "Compare trainings, and choose which one to look at."),
    PageEntry("export", "Export", "ios_share", "Take the result away as a file, folders or a page."),
)


def navigation() -> st.Page:
    """Show the list of pages; returns the one to run now."""
    st.logo(str(WORDMARK), size="large", icon_image=str(ICON))
    return st.navigation([_page(entry) for entry in PAGES])


def entry_of(name: str) -> PageEntry:
    """The page of that name."""
    return next(entry for entry in PAGES if entry.name == name)


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
    st.switch_page(_page(entry_of(name)))


def _page(entry: PageEntry) -> st.Page:
    is_first = entry is PAGES[0]
    icon = f":material/{entry.icon}:"
    return st.Page(_renderer(entry.name), title=entry.title, icon=icon, url_path=entry.name, default=is_first)


def _renderer(name: str) -> Callable[[], None]:
    def render() -> None:
        import_module(f"app.views.{name}").render()

    return render
