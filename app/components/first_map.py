"""How long it takes to the first map of a data set on this computer, measured in the background."""

from __future__ import annotations

import streamlit as st

from app.components.plain import show_caption
from app.measuring import Question, measuring
from crlc.cli.output import duration
from crlc.data.dataset import ImageDataset
from crlc.workspace import Workspace

_LOOK_SECONDS = 1.0
_ENDED = ("done", "failed")


def first_map_question(workspace: Workspace, dataset: ImageDataset) -> Question:
    """What is asked: the same that Explore computes before training."""
    about = f"{dataset.info.uid} {dataset.version}"
    return Question(workspace.root, ("explore", dataset.name, "--method", "pca", "--dry-run"), about)


def show_first_map(workspace: Workspace, dataset: ImageDataset, *, may_measure: bool) -> None:
    """One line; it is as high while it is measured as afterwards."""
    question = first_map_question(workspace, dataset)
    known = measuring().known(question)
    pending = may_measure and (known is None or known.state not in _ENDED)
    st.fragment(_show, run_every=_LOOK_SECONDS if pending else None)(question, pending=pending)


def _show(question: Question, *, pending: bool) -> None:
    answer = measuring().ask(question) if pending else measuring().known(question)
    if pending and answer is not None and answer.state in _ENDED:
        st.rerun()  # so that nobody looks every second any more
    with st.container(height=32, border=False):
        if answer is None or answer.state not in _ENDED:
            show_caption(
                "Measuring how long the first map takes here ..."
                if pending
                else "How long the first map takes is measured when nothing is being trained or imported."
            )
        elif answer.content is None:
            show_caption(f"The time to the first map could not be measured: {answer.text}")
        else:
            st.markdown(
                f"First map in about **{duration(answer.content['seconds'])}** on this computer, before any training",
                help="Features of a pretrained network, provisional clusters and a map, from a few timed images. It "
                "takes longer while other programs compute.",
            )
