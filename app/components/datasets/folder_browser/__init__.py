"""Dialog that shows the folders of this computer, to choose one by mouse or keyboard."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from app.components.common.safe_text import show_caption, show_error
from app.state import importing
from app.state.widgets import get_widget_value
from crlc.data.sources.folder import describe_os_error, is_hidden
from crlc.formatting import format_count
from crlc.paths import to_printable

_HERE = Path(__file__).parent
_KEY = "browse-folders"
_MAX_FOLDERS = 2000


@dataclass(frozen=True)
class FolderListing:
    """Subfolders of a folder, and the number of its files."""

    folders: tuple[str, ...]
    files: int


def list_folders(folder: str, *, with_hidden: bool = False) -> FolderListing:
    """List a folder of this computer.

    Args:
        folder: path of the folder.
        with_hidden: True to list hidden folders, too.

    Raises:
        OSError: the folder cannot be listed.
    """
    folders, files = [], 0
    with os.scandir(folder) as listing:
        for item in listing:
            if is_hidden(item.name) and not with_hidden:
                continue
            try:
                is_folder = item.is_dir()
            except OSError:
                continue
            if is_folder:
                folders.append(item.name)
            else:
                files += 1
    return FolderListing(tuple(sorted(folders, key=str.casefold)), files)


@st.dialog("Choose a folder", width="medium", icon=":material/folder_open:")
def show_folder_browser() -> None:
    """Show the dialog; the chosen folder is written into the widget for the path."""
    folder = importing.get_browsed_folder()
    listing = FolderListing((), 0)
    try:
        listing = list_folders(folder, with_hidden=bool(get_widget_value(importing.HIDDEN_WIDGET)))
    except OSError as error:
        show_error(f"{to_printable(folder)} cannot be opened: {describe_os_error(error)}.")
    folders = [name for name in listing.folders if name.isprintable()][:_MAX_FOLDERS]  # others cannot be sent as text
    data = {"folder": folder, "parents": _list_parents(folder), "names": folders}
    show_component(_load_component(), _KEY, {"opened": _open}, data=data)
    show_caption(f"{format_count(len(listing.folders), 'folder')} and {format_count(listing.files, 'file')} here.")
    choose, cancel, hidden = st.columns([1.5, 1, 1.6], vertical_alignment="center")
    if choose.button("Use this folder", key="browse-use", type="primary", width="stretch"):
        importing.set_browsed_folder(folder)
        importing.choose_path(folder)
        st.rerun()
    if cancel.button("Cancel", key="browse-cancel", width="stretch"):
        st.rerun()
    hidden.toggle("Hidden folders", key=importing.HIDDEN_WIDGET, help="Shows folders whose name starts with a dot.")


def _open(value: Any) -> None:
    if isinstance(value, str) and os.path.isdir(value):
        importing.set_browsed_folder(os.path.abspath(value))


def _list_parents(folder: str) -> list[dict[str, str]]:
    """Return the folders above a folder, and the folder itself, from the root on."""
    path = Path(folder)
    return [{"name": one.name or str(one), "path": str(one)} for one in (*reversed(path.parents), path)]


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"browser.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_folder_browser", js=script, css=style)
