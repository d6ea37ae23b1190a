"""Fixtures for tests of the setup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.setup_project import Project, create_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_project(tmp_path)
