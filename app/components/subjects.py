"""What a page is about: the chosen run, or the chosen data set before training, or what to do to have one."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.facts import Fact
from app.components.heading import show_heading, show_subject_line
from app.components.plain import show_caption, show_error, show_text
from app.components.unfinished import show_unfinished
from app.components.waiting import watch
from app.exploring.background import Work, begin
from app.exploring.opened import open_dataset, open_run
from app.exploring.subject import Subject
from app.state.chosen import chosen_dataset, chosen_run
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError
from crlc.workspace import Workspace


def subject_of_page(workspace: Workspace, page: str) -> Subject | None:
    """The subject, with the page's heading above it; none after having said what to do instead."""
    beside = show_heading(page)
    try:
        run, dataset = chosen_run(workspace), chosen_dataset(workspace)
        if run is not None:
            try:
                subject = open_run(workspace, run)
            except NotFoundError as error:
                show_text(str(error))
            else:
                _about(subject, beside)
                show_unfinished(subject)
                return subject
        if dataset is None:
            st.info("There are no images yet. Bring some in on the Start page, or try the digits there.")
            return None
        return _before_training(workspace, dataset, beside)
    except CrlcError as error:
        show_error(str(error))
        return None


def _about(subject: Subject, beside: DeltaGenerator) -> None:
    if subject.is_provisional:
        st.badge(
            "Provisional clusters: k-means on the features of a pretrained network. Nothing was trained yet.",
            icon=":material/science:",
            color="orange",
        )
    clusters = len(set(subject.clusters.tolist()))
    what = "data set" if subject.is_provisional else "run"
    show_subject_line(
        beside,
        [
            Fact(subject.name, f"The {what} that this page shows; choose another one in the sidebar."),
            Fact(f"{len(subject.ids):,} images", f"How many images of this {what} are there."),
            Fact(f"{clusters:,} clusters", "How many clusters have at least one image."),
        ],
    )


def _before_training(workspace: Workspace, dataset: ImageDataset, beside: DeltaGenerator) -> Subject | None:
    key = f"exploration-{workspace.root}-{dataset.name}"
    running = watch(key)
    found = open_dataset(workspace, dataset)
    if found is not None and running is None:
        _about(found, beside)
        return found
    show_caption(f"{dataset.name} has not been trained yet.")
    if running is None:
        st.info(
            "Look at the images before any training: features of a pretrained network, a map of them, and provisional "
            "clusters. It takes about a minute for 3,000 images."
        )
        st.button(
            "Compute provisional clusters",
            type="primary",
            on_click=partial(begin, key, "Provisional clusters", partial(_explore, workspace, dataset)),
        )
    return None


def _explore(workspace: Workspace, dataset: ImageDataset, work: Work) -> None:
    from crlc.analysis.map_settings import MapSettings
    from crlc.workspace.exploration import ExplorationSettings, explore

    # The quickest map: the others are made when somebody wants to see them.
    explore(workspace, dataset, ExplorationSettings(map=MapSettings("pca")), report=work.report)
