"""The view that a page shows: the current run, or the current dataset before training, or an empty state."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.background.tasks import BackgroundTask, start_task
from app.components.common.heading import show_heading, show_view_line
from app.components.common.metadata_line import Fact
from app.components.common.partial_result import show_partial_result
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error, show_text
from app.navigation import link_to
from app.state.current import open_current_dataset, open_current_run
from app.view_models.cluster_view import ClusterView
from app.view_models.view_cache import open_dataset_view, open_run_view
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError
from crlc.formatting import format_count
from crlc.workspace import Workspace


def show_current_view(workspace: Workspace, page: str) -> ClusterView | None:
    """Show the heading of a page, and open the current view.

    Returns:
        the view; `None` if there is none, after showing the next step.
    """
    beside = show_heading(page)
    try:
        run, dataset = open_current_run(workspace), open_current_dataset(workspace)
        if run is not None:
            try:
                view = open_run_view(workspace, run)
            except NotFoundError as error:
                show_text(str(error))
            else:
                _show_summary(view, beside)
                show_partial_result(view)
                return view
        if dataset is None:
            show_no_datasets()
            return None
        return _show_untrained(workspace, dataset, beside)
    except CrlcError as error:
        show_error(str(error))
        return None


def show_no_datasets() -> None:
    """Show what to do in a workspace without datasets."""
    st.info("No datasets yet. Import a folder to get started, or try the sample data.")
    link_to("start", "Go to Start")


def _show_summary(view: ClusterView, beside: DeltaGenerator) -> None:
    if view.is_provisional:
        st.badge(
            "Untrained preview: provisional clusters, made with k-means on pretrained image features.",
            icon=":material/science:",
            color="orange",
        )
    clusters = len(set(view.clusters.tolist()))
    kind = "dataset" if view.is_provisional else "run"
    show_view_line(
        beside,
        [
            Fact(view.name, f"Current {kind}; select another one in the sidebar."),
            Fact(format_count(len(view.ids), "image"), f"Images of this {kind} that can be shown."),
            Fact(format_count(clusters, "cluster"), "Clusters with at least one image."),
        ],
    )


def _show_untrained(workspace: Workspace, dataset: ImageDataset, beside: DeltaGenerator) -> ClusterView | None:
    key = f"exploration-{workspace.root}-{dataset.name}"
    running = show_task(key)
    found = open_dataset_view(workspace, dataset)
    if found is not None and running is None:
        _show_summary(found, beside)
        return found
    show_caption(f"{dataset.name} has no runs yet.")
    if running is None:
        st.info(
            "Preview the images before training: a map and provisional clusters from pretrained image features. "
            "It takes about a minute for 3,000 images."
        )
        st.button(
            "Compute preview",
            type="primary",
            key="compute-preview",
            on_click=_start_preview,
            args=(key, workspace, dataset),
        )
    return None


def _start_preview(key: str, workspace: Workspace, dataset: ImageDataset) -> None:
    start_task(key, "Preview", partial(_compute_preview, workspace, dataset))


def _compute_preview(workspace: Workspace, dataset: ImageDataset, task: BackgroundTask) -> None:
    from crlc.analysis.maps.settings import MapSettings
    from crlc.services.explore import ExplorationSettings, explore_dataset

    # The fastest map: the others are computed when the user selects them.
    explore_dataset(workspace, dataset, ExplorationSettings(map=MapSettings("pca")), report=task.report)
