"""Long operations in threads of the server: progress, errors and cancelling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.background.tasks import BackgroundTask, dismiss_task, get_task, start_task
from app.view_models.view_cache import open_run_view
from crlc.errors import UsageError
from crlc.progress import Progress
from crlc.runs.results import get_maps_folder
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

WAIT_SECONDS = 60


def fail_with(error: Exception) -> Callable[[BackgroundTask], None]:
    def run(_: BackgroundTask) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "fact"), [(UsageError("Not allowed."), "Not allowed."), (ValueError("x"), "ValueError('x')")]
)
def test_task_keeps_its_error_until_dismissed(error: Exception, fact: str):
    start_task("test-errors", "Test", fail_with(error)).wait(WAIT_SECONDS)
    assert fact in get_task("test-errors").error
    dismiss_task("test-errors")
    assert get_task("test-errors") is None


def test_task_runs_once_per_key_and_can_be_cancelled():
    started, proceed = threading.Event(), threading.Event()
    is_completed = threading.Event()

    def run(task: BackgroundTask) -> None:
        started.set()
        assert proceed.wait(WAIT_SECONDS)
        task.report(Progress("Step", 1, 2, 1.0))
        is_completed.set()

    first = start_task("test-once", "Test", run)
    assert started.wait(WAIT_SECONDS)
    assert start_task("test-once", "Test", run) is first
    dismiss_task("test-once")  # no effect while it runs
    assert get_task("test-once") is first
    first.cancel()
    proceed.set()
    first.wait(WAIT_SECONDS)
    assert (first.is_running, first.error, first.progress.done) == (False, None, 1)
    assert not is_completed.is_set()
    dismiss_task("test-once")


def test_map_is_computed_in_the_background_and_can_be_cancelled(workspace: Workspace, tmp_path: Path):
    run = write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    for file in get_maps_folder(run).iterdir():
        file.unlink()
    view = open_run_view(workspace, run)
    assert view.load_coordinates("pca") is None
    task = start_task("test-map", "PCA map", lambda task: view.compute_map("pca", task))
    task.wait(WAIT_SECONDS)
    assert (task.is_running, task.error) == (False, None)
    np.testing.assert_allclose(np.abs(view.load_coordinates("pca")).max(), 1, atol=1e-6)
    cancelled = BackgroundTask("t-SNE map", lambda task: view.compute_map("tsne", task))
    cancelled.cancel()
    cancelled.wait(WAIT_SECONDS)
    assert (cancelled.is_running, cancelled.error) == (False, None)
    assert view.load_coordinates("tsne") is None
    assert [file.name for file in get_maps_folder(run).iterdir() if file.name.startswith(".")] == []
