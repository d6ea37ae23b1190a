"""Originals that are not where they were: said in place, with a box for where they are now."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.components.plain import show_error
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.workspace import Workspace
from crlc.workspace.originals import missing_originals

_ORIGINALS_SECONDS = 10.0
_IN_A_TERMINAL = (" If the originals moved: relink ", " Give a folder, a .zip,")


@st.cache_data(ttl=_ORIGINALS_SECONDS, show_spinner=False, max_entries=64)
def _missing_originals(folder: str, location: str) -> str | None:
    """Not looked for at every click: an archive's directory may be long."""
    del location  # only so that another place is looked at at once
    return missing_originals(ImageDataset(Path(folder)))


def show_missing_originals(workspace: Workspace, dataset: ImageDataset, remark: str) -> bool:
    """Nothing where they can be read.

    Args:
        workspace: of the data set.
        dataset: which.
        remark: what works without them.

    Returns:
        whether they are missing.
    """
    problem = _missing_originals(str(dataset.folder), dataset.info.location)
    if problem is None:
        return False
    show_error(f"{without_advice(problem)} Plug the disk in, or say where the originals are now. {remark}")
    with st.form(f"relink-{dataset.name}", border=False):
        box, button = st.columns([5, 1], vertical_alignment="bottom")
        place = box.text_input("Where the originals are now", placeholder="for example /media/disk/photos")
        if button.form_submit_button("Re-link", width="stretch") and place.strip():
            try:
                report = workspace.relink(dataset.name, place.strip())
            except (CrlcError, OSError) as error:
                show_error(str(error))
            else:
                st.toast(f"{report.found:,} of {report.expected:,} images found.")
                st.rerun()
    return True


def without_advice(problem: str) -> str:
    """What is wrong, without what to do about it in a terminal."""
    for advice in _IN_A_TERMINAL:
        problem = problem.partition(advice)[0]
    return problem
