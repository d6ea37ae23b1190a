"""Installation of the example in a new workspace, in the background while the pages are served."""

from __future__ import annotations

from app.background.tasks import BackgroundTask, get_task, start_task
from crlc.workspace import Workspace


def start_example_install(workspace: Workspace) -> None:
    """Start the installation; it ends immediately if the workspace was used before."""

    def install(task: BackgroundTask) -> None:
        from crlc.workspace.example import install_example_once

        install_example_once(workspace, report=task.report)

    start_task(_build_key(workspace), "Installing the example", install)


def get_example_task(workspace: Workspace) -> BackgroundTask | None:
    """Return the installation task, even after it has ended; `None` if it was not started."""
    return get_task(_build_key(workspace))


def _build_key(workspace: Workspace) -> str:
    return f"example-{workspace.root}"
