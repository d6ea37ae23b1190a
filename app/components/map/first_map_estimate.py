"""Estimated time to the first map of a dataset on this computer, measured in the background."""

from __future__ import annotations

import streamlit as st

from app.background.commands import BackgroundCommand, build_dataset_command, get_command_runner
from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption
from crlc.data.dataset import ImageDataset
from crlc.formatting import format_duration
from crlc.workspace import Workspace

_POLL_SECONDS = 1.0


def build_first_map_estimate_command(workspace: Workspace, dataset: ImageDataset) -> BackgroundCommand:
    """Return the command that estimates the time to the first map: an exploration with a PCA map."""
    return build_dataset_command(workspace, dataset, "explore", dataset.name, "--method", "pca", "--dry-run")


def show_first_map_estimate(workspace: Workspace, dataset: ImageDataset, *, may_measure: bool) -> None:
    """Show the time to the first map in a line of fixed height, so that nothing moves when it is known."""
    command = build_first_map_estimate_command(workspace, dataset)
    known = get_command_runner().get_result(command)
    pending = may_measure and (known is None or not known.is_finished)
    make_fragment(_show, run_every=_POLL_SECONDS if pending else None)(command, pending=pending)


def _show(command: BackgroundCommand, *, pending: bool) -> None:
    result = get_command_runner().submit(command) if pending else get_command_runner().get_result(command)
    if pending and result is not None and result.is_finished:
        st.rerun()  # ends the polling
    with st.container(height=32, border=False):
        if result is None or not result.is_finished:
            show_caption(
                "Estimating time…"
                if pending
                else "The time to the first map is estimated when no training or import is running."
            )
        elif result.content is None:
            show_caption(f"The time to the first map could not be estimated: {result.error}")
        else:
            st.markdown(
                f"First map in about **{format_duration(result.content['seconds'])}** on this computer, "
                "without training",
                help="Time for pretrained features, provisional clusters and a map, estimated from a few images. Other "
                "running programs slow it down.",
            )
