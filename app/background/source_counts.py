"""Counting of the files of a source in the background, before it is imported."""

from __future__ import annotations

from app.background.tasks import BackgroundTask, dismiss_task, list_tasks, start_task
from crlc.data.sources.builtin import BUILTIN_DATASETS
from crlc.data.sources.counting import SourceCount, count_source_files
from crlc.data.sources.opening import open_source
from crlc.workspace import Workspace

_PREFIX = "count-"


def start_count(workspace: Workspace, path: str, wait_seconds: float = 0.0) -> BackgroundTask:
    """Count the files of a source, or return the task that counts or has counted them.

    Args:
        workspace: the workspace.
        path: path of the source.
        wait_seconds: time to wait for the result: counting is usually faster than drawing the page twice.
    """
    key = build_count_key(path)
    found = list_tasks(_PREFIX)
    for other, task in found.items():
        if other != key:
            task.cancel()
            dismiss_task(other)
    task = found.get(key) or start_task(key, "Counting", lambda task: _count(workspace, path, task))
    task.wait(wait_seconds)
    return task


def forget_count(path: str) -> None:
    """Cancel the counting of a source, and forget its result: its files may change."""
    key = build_count_key(path)
    if key in list_tasks(key):
        list_tasks(key)[key].cancel()
        list_tasks(key)[key].wait()
        dismiss_task(key)


def get_count(task: BackgroundTask) -> SourceCount | None:
    """Return the result of a task; `None` while it runs, and after an error."""
    return task.result if isinstance(task.result, SourceCount) else None


def can_count(path: str) -> bool:
    """Return whether a source can be counted: a built-in dataset would be downloaded."""
    return path not in BUILTIN_DATASETS


def build_count_key(path: str) -> str:
    """Return the key of the task that counts the files of a source."""
    return f"{_PREFIX}{path}"


def _count(workspace: Workspace, path: str, task: BackgroundTask) -> None:
    task.result = count_source_files(open_source(path, workspace.root / "downloads"), task.report)
