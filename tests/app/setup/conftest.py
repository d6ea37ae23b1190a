"""Fixtures for tests of the setup."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.setup_project import Project, create_project


@pytest.fixture
def new_project(tmp_path: Path) -> Project:
    """Return a project without an environment."""
    return create_project(tmp_path)


@pytest.fixture
def project(new_project: Project, empty_environment: Path) -> Project:
    """Return a project with an environment that has only pip."""
    shutil.copytree(empty_environment, new_project.folder / ".venv", symlinks=True)
    return new_project


@pytest.fixture(scope="session")
def empty_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment to copy, which takes a tenth of the time of creating one."""
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder
