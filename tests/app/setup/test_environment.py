"""Virtual environments that are incomplete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.setup_project import Project

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("state", ["an empty folder", "a dead interpreter", "no pip", "pip elsewhere"])
def test_run_app_repairs_an_incomplete_environment(project: Project, tmp_path: Path, state: str):
    python = project.folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    if state == "a dead interpreter":
        os.symlink("/nowhere/python3", python)
    if state in ("no pip", "pip elsewhere"):
        shutil.rmtree(project.folder / ".venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project.folder / ".venv")], check=True)
    (tmp_path / "elsewhere" / "pip").mkdir(parents=True)
    (tmp_path / "elsewhere" / "pip" / "__init__.py").touch()
    variables = {"PYTHONPATH": str(tmp_path / "elsewhere")} if state == "pip elsewhere" else {}
    code, output = project.run(**variables)
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")
