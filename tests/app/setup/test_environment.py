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
def test_run_app_repairs_an_incomplete_environment(new_project: Project, tmp_path: Path, state: str):
    python = new_project.folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    if state == "a dead interpreter":
        os.symlink("/nowhere/python3", python)
    if state in ("no pip", "pip elsewhere"):
        shutil.rmtree(new_project.folder / ".venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(new_project.folder / ".venv")], check=True)
    (tmp_path / "elsewhere" / "pip").mkdir(parents=True)
    (tmp_path / "elsewhere" / "pip" / "__init__.py").touch()
    variables = {"PYTHONPATH": str(tmp_path / "elsewhere")} if state == "pip elsewhere" else {}
    code, output = new_project.run(**variables)
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_keeps_an_environment_without_pip(new_project: Project):
    """Environments of uv have no pip; the user may have installed packages there."""
    folder = new_project.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (folder / "mine").touch()
    code, output = new_project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")
    assert (folder / "mine").exists()


def test_run_app_repairs_an_environment_with_a_part_of_pip(project: Project):
    """As after a setup that was killed while it unpacked pip."""
    assert project.run()[0] == 0
    project.stamp_file.unlink()
    shutil.rmtree(project.site_packages / "pip" / "_internal" / "cli")
    code, output = project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")
