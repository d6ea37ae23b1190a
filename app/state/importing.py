"""Session state of the import form: the path, the folder in the folder browser, and the requested import."""

from __future__ import annotations

import os
from collections.abc import Sequence

import streamlit as st

PATH_WIDGET, HIDDEN_WIDGET = "import-path", "browse-hidden"
"""Keys of the widgets for the path, and for hidden folders in the folder browser."""

_BROWSED_FOLDER, _CHOSEN = "browsed-folder", "import-chosen"
_LAST_UPLOAD, _UPLOADED = "last-upload", "uploaded-sources"
_REQUESTED, _CONFIRMED = "import-requested", "import-confirmed"


def get_path() -> str:
    """Return the text in the widget for the path."""
    path: str = st.session_state.get(PATH_WIDGET, "")
    return path


def set_path(path: str) -> None:
    """Write a path into its widget (callback of a button)."""
    st.session_state[PATH_WIDGET] = path


def choose_path(path: str) -> None:
    """Write a path into its widget in the next script run: in this one, the widget is drawn already."""
    st.session_state[_CHOSEN] = path


def apply_chosen_path() -> None:
    """Write the chosen path into its widget; call it before the widget is drawn."""
    if _CHOSEN in st.session_state:
        set_path(st.session_state.pop(_CHOSEN))


def get_browsed_folder() -> str:
    """Return the folder that the folder browser shows."""
    folder: str = st.session_state.get(_BROWSED_FOLDER, "")
    return folder if folder and os.path.isdir(folder) else os.path.expanduser("~")


def set_browsed_folder(folder: str) -> None:
    """Show another folder in the folder browser."""
    st.session_state[_BROWSED_FOLDER] = folder


def request_import(path: str | None) -> None:
    """Store the path of the import that the user requested, until it can start; `None` to forget it."""
    st.session_state[_REQUESTED] = path
    st.session_state[_CONFIRMED] = False


def confirm_import() -> None:
    """Confirm the import of very many files (callback of a button)."""
    st.session_state[_CONFIRMED] = True


def get_requested_import() -> tuple[str | None, bool]:
    """Return the path of the requested import that has not started, and whether the user has confirmed it."""
    return st.session_state.get(_REQUESTED), st.session_state.get(_CONFIRMED, False)


def record_upload(upload_id: str, sources: Sequence[str] = (), *, problem: str = "") -> None:
    """Store the sources of a finished upload, or why there are none, for the next script run (callback)."""
    st.session_state[_LAST_UPLOAD] = upload_id
    st.session_state[_UPLOADED] = ([*sources], problem)


def get_last_upload() -> str:
    """Return the id of the upload that was finished last; empty if there is none."""
    upload_id: str = st.session_state.get(_LAST_UPLOAD, "")
    return upload_id


def pop_uploaded_sources() -> tuple[list[str], str]:
    """Return the uploaded sources that are not imported yet, and the problem of the last upload, and clear both."""
    found: tuple[list[str], str] = st.session_state.pop(_UPLOADED, ([], ""))
    return found
