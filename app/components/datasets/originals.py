"""Missing originals of a dataset: the problem, and a form for their new location."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.components.common.safe_text import show_error
from crlc.data.dataset import ImageDataset
from crlc.data.originals import find_missing_originals
from crlc.errors import CrlcError
from crlc.paths import parse_typed_path
from crlc.workspace import Workspace

_CHECK_SECONDS = 10.0


@st.cache_data(ttl=_CHECK_SECONDS, show_spinner=False, max_entries=64)
def _find_problem(folder: str, location: str) -> str | None:
    """Return the problem with the originals, or `None`; cached, because listing an archive may be slow."""
    del location  # part of the cache key: a relinked dataset is checked immediately
    error = find_missing_originals(ImageDataset(Path(folder)))
    return None if error is None else error.message


def show_missing_originals(workspace: Workspace, dataset: ImageDataset, remark: str) -> bool:
    """Show that the originals are missing, with a form for their new location.

    Args:
        workspace: the workspace of the dataset.
        dataset: the dataset whose originals are checked.
        remark: sentence about what works without the originals.

    Returns:
        True if originals are missing.
    """
    problem = _find_problem(str(dataset.folder), dataset.info.location)
    if problem is None:
        return False
    show_error(f"{problem} Connect the disk, or enter the new location of the originals. {remark}")
    with st.form(f"relink-{dataset.name}", border=False):
        box, button = st.columns([5, 1.3], vertical_alignment="bottom")
        location = box.text_input(
            "New location of the originals",
            key=f"originals-{dataset.name}",
            placeholder="e.g. /media/disk/photos",
            help="Sets the folder or file that this dataset was imported from.",
        )
        is_sent = button.form_submit_button("Relink images", width="stretch", key=f"relink-originals-{dataset.name}")
        path = parse_typed_path(location)
        if is_sent and path:
            try:
                report = workspace.relink_dataset(dataset.name, path)
            except (CrlcError, OSError) as error:
                show_error(str(error))
            else:
                st.toast(f"Found {report.found:,} of {report.expected:,} images.")
                st.rerun()
    return True
