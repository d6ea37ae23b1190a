"""The view that a page shows: the current run, or the current dataset before training, or an empty state."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from streamlit.delta_generator import DeltaGenerator

from app.background.imports import find_import
from app.background.previews import build_preview_key, get_preview, read_preview_stamp, start_preview
from app.background.tasks import get_task
from app.components.common.heading import show_heading, show_view_line
from app.components.common.image_strip import show_image_strip
from app.components.common.metadata_line import Fact
from app.components.common.partial_result import show_partial_result
from app.components.common.polling import show_task
from app.components.common.safe_text import show_caption, show_error, show_text
from app.navigation import link_to
from app.state.current import open_current_dataset, open_current_run
from app.view_models.cluster_view import ClusterView, DatasetView
from app.view_models.run_table import format_run_error, get_run_title
from app.view_models.view_cache import open_dataset_view, open_run_view
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.errors import CrlcError, NotFoundError
from crlc.formatting import format_count
from crlc.workspace import Workspace

_FIRST_IMAGES = 100
"""Number of images shown before the first map exists, in the order of their files."""

_FIRST_IMAGES_HEIGHT_PIXELS = 96


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
                show_text(format_run_error(workspace, run.id, error))
            else:
                _show_summary(workspace, view, beside)
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


def _show_summary(workspace: Workspace, view: ClusterView, beside: DeltaGenerator) -> None:
    if view.is_provisional:
        st.badge(
            _describe_preview(view),
            icon=":material/science:",
            color="orange",
        )
    clusters = len(set(view.clusters.tolist()))
    kind = "dataset" if view.is_provisional else "run"
    facts = [
        name_current_view(workspace, view.dataset.name, None if view.is_provisional else view.name),
        Fact(format_count(len(view.ids), "image"), f"Images of this {kind} that can be shown."),
        Fact(format_count(clusters, "cluster"), "Clusters with at least one image."),
    ]
    show_view_line(beside, facts[:-1] if facts[0].text.endswith(facts[-1].text) else facts)


def name_current_view(workspace: Workspace, dataset: str, run: str | None) -> Fact:
    """Return the name of the current run, or of the current dataset without a run, for the heading of a page."""
    if run is None:
        return Fact(dataset, "Current dataset; select another one in the sidebar.")
    return Fact(get_run_title(workspace, run), f"Current run; select another one in the sidebar. Run id: {run}.")


def _describe_preview(view: ClusterView) -> str:
    features = view.exploration.features_name if isinstance(view, DatasetView) else "image features"
    text = f"Untrained preview: provisional clusters, made with k-means on {features}."
    return f"{text} More images are being added." if view.is_growing else text


def _show_untrained(workspace: Workspace, dataset: ImageDataset, beside: DeltaGenerator) -> ClusterView | None:
    """Show the preview of a dataset; it is computed by itself, and shown while it grows.

    During the first import, it grows with the images decoded so far.
    """
    import_key = find_import(workspace, dataset.name)
    key = import_key or build_preview_key(workspace, dataset.name)
    task, stamp = get_task(key), read_preview_stamp(dataset)
    was_running = task is not None and task.is_running
    found = None if stamp is None else open_dataset_view(workspace, dataset)
    is_needed = found is None or found.is_growing
    if import_key is None and is_needed and get_preview(workspace, dataset.name) is None:
        start_preview(workspace, dataset)
    ids = _list_first_images(dataset)

    def has_news() -> bool:
        has_more_images = found is None and len(ids) < _FIRST_IMAGES and len(_list_first_images(dataset)) > len(ids)
        return has_more_images or read_preview_stamp(dataset) != stamp

    with st.container(key="preview-progress"):  # it stays when the progress ends, so that the map keeps its element
        running = show_task(key, has_news)
    if was_running and running is None and (import_key is not None or read_preview_stamp(dataset) != stamp):
        st.rerun()  # it has ended since this run has read the preview: there is a newer one, or a next task
    if found is not None:
        _show_summary(workspace, found, beside)
        return found
    show_caption(f"{dataset.name} has no runs yet.")
    if running is not None and not len(ids):
        show_caption("The first images appear here when the files are listed.")
    elif running is not None:
        records = read_records(dataset, ids)
        show_image_strip(
            dataset.name, [records[image] for image in ids.tolist()], height=_FIRST_IMAGES_HEIGHT_PIXELS, wrap=True
        )
    else:
        st.button(
            "Compute preview",
            type="primary",
            key="compute-preview",
            on_click=start_preview,
            args=(workspace, dataset),
            help="Computes a map and provisional clusters from pretrained image features.",
        )
    return None


def _list_first_images(dataset: ImageDataset) -> NDArray[np.int64]:
    """Return the ids of the first images that can be shown."""
    try:
        return dataset.open_pixels(dataset.info.size, decoded_so_far=True).ids[:_FIRST_IMAGES]
    except NotFoundError:  # the import has not decoded any image yet
        return np.empty(0, np.int64)
