"""Import form of the Start page: a path with a folder browser and a count of its files, or uploaded files."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.background.imports import start_import
from app.background.source_counts import build_count_key, can_count, forget_count, get_count, start_count
from app.components.common.action_button import show_action_button
from app.components.common.fragments import make_fragment
from app.components.common.polling import show_task
from app.components.common.safe_text import escape_markdown, show_caption, show_error, show_warning
from app.components.datasets.folder_browser import show_folder_browser
from app.components.datasets.upload_zone import show_upload_zone
from app.state import importing
from app.state.notices import record_started_task, watch_task
from crlc.data.options import MAX_SIZE, MIN_SIZE, ImportOptions
from crlc.data.sources.counting import SourceCount
from crlc.errors import CrlcError
from crlc.formatting import format_bytes, format_count
from crlc.paths import parse_typed_path, to_printable
from crlc.services.store_uploads import UPLOADS_FOLDER, finish_upload
from crlc.workspace import Workspace
from crlc.workspace.recent_folders import list_recent_folders

MAX_FILES_WITHOUT_QUESTION = 50_000
"""With more files, such as those of a whole disk or home folder, the user must confirm the import."""

_CLASS_SOURCES = {"auto": "Detect automatically", "folders": "From folder names", "none": "Ignore"}
_COUNT_WAIT_SECONDS, _COUNT_POLL_SECONDS = 0.3, 0.5
_SHOWN_RECENT_FOLDERS = 4
_LINE_HEIGHT_PIXELS = 32


def show_import_form(workspace: Workspace, *, is_first: bool) -> None:
    """Show the form, and start the import that the user requests.

    Args:
        workspace: receives the dataset.
        is_first: True if there is no dataset yet.
    """
    importing.apply_chosen_path()
    path_box, browse_box, import_box = st.columns([6, 1.5, 1.5], vertical_alignment="bottom")
    path_box.text_input(
        "Folder of images",
        key=importing.PATH_WIDGET,
        placeholder="e.g. /home/me/photos",
        help="Imports all images in the folder and its subfolders. Also accepts .zip, .npz, .csv or .parquet. Your "
        "files are only read, never moved or changed.",
    )
    path = parse_typed_path(importing.get_path())
    if browse_box.button("Browse folders", key="browse", icon=":material/folder_open:", width="stretch"):
        show_folder_browser()
    is_submitted = show_action_button(
        import_box,
        "Import folder",
        key="import-folder",
        type="primary" if path or is_first else "secondary",
        width="stretch",
    )
    line = st.container(height=_LINE_HEIGHT_PIXELS, border=False)  # the height is fixed, so that nothing below moves
    with line:
        if path and can_count(path):
            _show_count_line(workspace, path)
        else:
            _show_recent_folders(workspace)
    _show_uploader(workspace)
    with st.expander("Import options", key="import-options"):
        options = _show_import_options()
    if is_submitted and not path:
        st.warning("Enter the path of a folder first, or choose one.")
    elif is_submitted:
        importing.request_import(path)
    _start_requested_import(workspace, options)


def _show_recent_folders(workspace: Workspace) -> None:
    uploads = str(workspace.root / UPLOADS_FOLDER)
    recent = [path for path in list_recent_folders(workspace) if not path.startswith(uploads)]
    if not recent:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Recent:", width="content")
        for number, path in enumerate(recent[:_SHOWN_RECENT_FOLDERS]):
            st.button(
                escape_markdown(to_printable(os.path.basename(path) or path)),
                key=f"recent-{number}", type="tertiary", on_click=importing.set_path, args=(path,),
                help=escape_markdown(to_printable(path)),
            )  # fmt: skip


# ---- count of the files


def _show_count_line(workspace: Workspace, path: str) -> None:
    is_running = start_count(workspace, path, _COUNT_WAIT_SECONDS).is_running
    make_fragment(_show_count, run_every=_COUNT_POLL_SECONDS if is_running else None)(
        workspace, path, is_running=is_running
    )


def _show_count(workspace: Workspace, path: str, *, is_running: bool) -> None:
    task = start_count(workspace, path)
    if is_running and not task.is_running:
        st.rerun()  # ends the polling
    count = get_count(task)
    if count is not None:
        show_caption(describe_count(count))
    elif task.error is not None:
        show_caption(task.error)
    elif task.is_running:
        show_caption("Counting files…" if task.progress is None else f"Counting files: {task.progress.done:,}")


def describe_count(count: SourceCount) -> str:
    """Return the number of files and their size in one sentence."""
    more = "" if count.is_complete else "More than "
    files = format_count(count.images, "image")
    if count.others:
        files += f" and {format_count(count.others, 'other file')}"
    return f"{more}{files} in {format_count(count.folders, 'folder')}, {format_bytes(count.bytes)}."


# ---- starting an import


def _start_requested_import(workspace: Workspace, options: dict[str, Any]) -> None:
    """Start the requested import, once its files are counted and, if there are very many, the user has confirmed."""
    path, is_confirmed = importing.get_requested_import()
    if path is None:
        return
    if can_count(path) and not is_confirmed:
        task = start_count(workspace, path, _COUNT_WAIT_SECONDS)
        if task.is_running:
            with st.container(border=True):
                show_task(build_count_key(path))
            return
        count = get_count(task)
        if count is not None and count.files > MAX_FILES_WITHOUT_QUESTION:
            _show_question(path, count)
            return
        if task.is_cancelled or task.error is not None:
            importing.request_import(None)
            forget_count(path)
            if task.error is not None:
                show_error(task.error)
            return
    importing.request_import(None)
    forget_count(path)
    if _start(workspace, path, options):
        st.rerun()  # the sidebar was drawn before


def _show_question(path: str, count: SourceCount) -> None:
    with st.container(border=True):
        at_least = "" if count.is_complete else "more than "
        files = format_count(count.files, "file")
        show_warning(f"{to_printable(path)} has {at_least}{files}. Import all of them? This may take long.")
        with st.container(horizontal=True):
            st.button(f"Import {files}", key="import-confirm", type="primary", on_click=importing.confirm_import)
            st.button("Cancel", key="import-cancel", on_click=importing.request_import, args=(None,))


def _start(workspace: Workspace, path: str, options: dict[str, Any]) -> bool:
    """Start an import; return False after showing why it cannot start."""
    vectors = options.pop("vectors", None)
    try:
        given = ImportOptions(**options, placeholders=True if vectors else None)
        key = start_import(workspace, path, options=given, vectors=vectors)
    except CrlcError as error:
        show_error(str(error))
        return False
    record_started_task(key)
    watch_task(key)
    return True


def _show_import_options() -> dict[str, Any]:
    """Return the options that differ from the defaults; the widgets of the others are empty."""
    size_box, limit_box, classes_box = st.columns(3)
    typed = st.text_input(
        "File of vectors",
        key="import-vectors",
        placeholder="None: compute features with the pretrained backbone",
        help="Uses your own vectors (.npy, .npz or .parquet) instead of a backbone: one per image, by path or in the "
        "order of the paths. Files of a list that do not exist are then shown as points.",
    )
    vectors = parse_typed_path(typed)
    return {
        "vectors": Path(vectors) if vectors else None,
        "size": size_box.number_input(
            "Stored size (px)", MIN_SIZE, MAX_SIZE, value=None, step=1, placeholder="Automatic",
            key="import-size",
            help="Sets the side of the stored square images. By default it fits the images, up to 160 px.",
        ),
        "limit": limit_box.number_input(
            "Image limit", 0, value=None, step=1, placeholder="All images", key="import-limit",
            help="Imports a random sample of at most this many images. The same images are drawn each time.",
        ),
        "classes": _parse_classes(classes_box),
    }  # fmt: skip


def _parse_classes(box: DeltaGenerator) -> str | None:
    source = box.selectbox(
        "Ground-truth classes", list(_CLASS_SOURCES), index=None, placeholder=_CLASS_SOURCES["auto"],
        format_func=lambda source: _CLASS_SOURCES.get(source, source),
        accept_new_options=True, key="import-classes",
        help="Sets where the classes of the images come from; enter a path to use a CSV file with the columns path "
        "and class. Classes are only used to measure accuracy, never to train.",
    )  # fmt: skip
    return None if source is None else parse_typed_path(source)


# ---- uploaded files


def _show_uploader(workspace: Workspace) -> None:
    """Show the drop zone, and import what it has uploaded."""
    show_upload_zone(
        str(workspace.root / UPLOADS_FOLDER),
        importing.get_last_upload(),
        key="upload-zone",
        finished=partial(_finish_upload, workspace),
    )
    sources, problem = importing.pop_uploaded_sources()
    if problem:
        show_error(problem)
    if sources and all([_start(workspace, source, {}) for source in sources]):
        st.rerun()  # the sidebar was drawn before


def _finish_upload(workspace: Workspace, upload_id: str, name: str) -> None:
    """Move the files of an upload to their final place (callback); the browser may report an upload several times."""
    if upload_id == importing.get_last_upload():
        return
    try:
        sources = finish_upload(workspace, upload_id, name)
    except (CrlcError, OSError) as error:
        importing.record_upload(upload_id, problem=str(error))
    else:
        importing.record_upload(upload_id, [str(source) for source in sources])
