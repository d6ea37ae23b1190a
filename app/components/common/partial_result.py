"""Badge for the result of an unfinished run, with a button once there is a newer result."""

from __future__ import annotations

import streamlit as st

from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_error
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.training_progress import compute_result_epoch, describe_partial_result
from app.view_models.view_cache import evict_view, read_newest_metadata
from crlc.errors import CrlcError

_POLL_SECONDS = 3.0


def show_partial_result(view: ClusterView) -> None:
    """Show a badge if the view is of an unfinished run."""
    if not isinstance(view, RunView) or view.analysis.result.metadata.get("final", True):
        return
    try:
        trains = view.analysis.run.read_status().state.is_active
    except CrlcError:
        return  # the Train page shows this error
    make_fragment(_show, run_every=_POLL_SECONDS if trains else None)(view)


def _show(view: RunView) -> None:
    metadata, run = view.analysis.result.metadata, view.analysis.run
    try:
        status, newest = run.read_status(), read_newest_metadata(view)
    except CrlcError as error:
        show_error(str(error))
        return
    # The height is fixed: nothing below moves when the button appears.
    with st.container(horizontal=True, vertical_alignment="center", height=48, border=False):
        st.badge(describe_partial_result(metadata, status), icon=":material/hourglass_top:", color="orange")
        if newest["folder"] == metadata["folder"]:
            return
        is_final = newest.get("final", True)
        label = (
            "Show final clusters" if is_final else f"Show clusters of epoch {compute_result_epoch(newest, status):,}"
        )
        if st.button(label, key="show-newest", type="primary" if is_final else "secondary",
                     help="Replaces the current clusters with the newest ones."):  # fmt: skip
            evict_view(view)
            st.rerun()
