"""Fixture with the view of a tiny run."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.view_models.cluster_view import RunView
from app.view_models.view_cache import open_run_view
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


@pytest.fixture
def view(workspace: Workspace, tmp_path: Path) -> RunView:
    """Return the view of a run with 12 images in three clusters."""
    return open_run_view(workspace, write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set")))
