"""Session state of the import form: the path, the folder in the folder browser, and the requested import."""

from __future__ import annotations

import os

import streamlit as st

PATH_WIDGET, HIDDEN_WIDGET = "import-path", "browse-hidden"
"""Keys of the widgets for the path, and for hidden folders in the folder browser."""

_BROWSED_FOLDER, _CHOSEN, _UPLOADS = "browsed-folder", "import-chosen", "uploads"
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


def build_uploader_key() -> str:
    """Return the key of the uploader; it changes with `clear_uploads`, which empties the uploader."""
    return f"import-files-{st.session_state.get(_UPLOADS, 0)}"


def clear_uploads() -> None:
    """Remove all files from the uploader."""
    st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1
