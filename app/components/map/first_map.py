"""Estimated time to the first map of a dataset on this computer, measured in the background."""

from __future__ import annotations

import streamlit as st

from app.background.commands import Command, get_command_runner
from app.components.common.safe_text import show_caption
from crlc.data.dataset import ImageDataset
from crlc.formatting import format_duration
from crlc.workspace import Workspace

_POLL_SECONDS = 1.0
_ENDED = ("done", "failed")


def build_first_map_command(workspace: Workspace, dataset: ImageDataset) -> Command:
    """Return the command that estimates the time of the untrained preview."""
    version = f"{dataset.info.uid} {dataset.version}"
    return Command(workspace.root, ("explore", dataset.name, "--method", "pca", "--dry-run"), version)


def show_first_map(workspace: Workspace, dataset: ImageDataset, *, may_measure: bool) -> None:
    """Show the estimate in a line of fixed height, so that nothing moves when it arrives."""
    command = build_first_map_command(workspace, dataset)
    known = get_command_runner().get_result(command)
    pending = may_measure and (known is None or known.state not in _ENDED)
    st.fragment(_show, run_every=_POLL_SECONDS if pending else None)(command, pending=pending)


def _show(command: Command, *, pending: bool) -> None:
    result = get_command_runner().submit(command) if pending else get_command_runner().get_result(command)
    if pending and result is not None and result.state in _ENDED:
        st.rerun()  # ends the polling
    with st.container(height=32, border=False):
        if result is None or result.state not in _ENDED:
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
