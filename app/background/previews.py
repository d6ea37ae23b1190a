"""Previews of untrained datasets: features, a map and provisional clusters, computed in the background."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import partial

from app.background.tasks import BackgroundTask, get_task, start_task
from crlc.data.dataset import ImageDataset
from crlc.progress import Progress
from crlc.workspace import Workspace

PREPARING_STAGE = "Preparing"
"""Name of the stage in progress reports that imports torch; it has no items."""


def start_preview(workspace: Workspace, dataset: ImageDataset, wait: Callable[[], None] = lambda: None) -> None:
    """Start computing the preview of a dataset, unless it is being computed; it goes on when the page is left.

    Args:
        workspace: workspace of the dataset.
        dataset: dataset of the preview.
        wait: waits until nothing else explores the dataset; called by the task.
    """
    run = partial(_compute_preview, workspace, dataset, wait)
    start_task(build_preview_key(workspace, dataset.name), "Preview", run)


def get_preview(workspace: Workspace, name: str) -> BackgroundTask | None:
    """Return the task that computes the preview of a dataset, or has ended and was not dismissed."""
    return get_task(build_preview_key(workspace, name))


def build_preview_key(workspace: Workspace, name: str) -> str:
    """Return the key of the task that computes the preview of a dataset."""
    return f"exploration-{workspace.root}-{name}"


def read_preview_stamp(dataset: ImageDataset) -> int | None:
    """Return a number that changes whenever a preview is stored, e.g. of more images; `None` if there is none."""
    try:
        return (dataset.folder / "exploration.json").stat().st_mtime_ns
    except FileNotFoundError:
        return None


def load_preview_modules() -> None:
    """Import the modules that previews need, torch among them, in a thread: it takes seconds the first time."""
    threading.Thread(target=lambda: importlib.import_module("crlc.services.explore"), daemon=True).start()


def _compute_preview(
    workspace: Workspace, dataset: ImageDataset, wait: Callable[[], None], task: BackgroundTask
) -> None:
    task.report(Progress(PREPARING_STAGE, 0, None, 0.0))
    wait()
    from crlc.analysis.maps.settings import MapSettings
    from crlc.services.explore import ExplorationSettings, explore_dataset

    # The fastest map: the others are computed when the user selects them.
    settings = ExplorationSettings(map=MapSettings("pca"))
    explore_dataset(workspace, dataset, settings, store_parts=True, report=task.report)
