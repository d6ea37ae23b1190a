"""Explanations of failed setups."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fixtures.setup_project import Project, get_error_line, make_wheel

pytestmark = pytest.mark.slow


def test_run_app_explains_a_missing_connection(project: Project):
    online = {
        "PIP_NO_INDEX": "0",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    }
    code, output = project.run(**online)
    assert code == 1
    assert "the package server cannot be reached" in get_error_line(output)
    assert project.run()[1].splitlines()[-1].startswith("APP 1.0")


def test_run_app_explains_a_missing_package_version(project: Project):
    make_wheel(project.wheels, "3.0", "Requires-Python: >=4\n")
    project.require("thing>=3.0")
    code, output = project.run()
    assert code == 1
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"a package has no version for Python {version}, which may be too old or too new" in get_error_line(output)


@pytest.mark.parametrize("small_disk", ["4m", "80m"], indirect=True, ids=["for the environment", "for the packages"])
def test_run_app_explains_a_full_disk(small_disk: Path, tmp_path: Path):
    make_wheel(tmp_path / "wheels", "1.0", ballast=100_000_000)
    code, output = Project(small_disk / "project", tmp_path / "wheels").run()
    assert code == 1
    assert "the disk is full: about 7 GB" in get_error_line(output)


def test_run_app_shows_other_failures_of_pip(project: Project):
    make_wheel(project.wheels, "3.0", "Requires-Python: >=4\n")  # ignored by pip, and mentioned in its log
    (project.wheels / "bad-1.0-py3-none-any.whl").write_bytes(b"not a wheel")
    project.require("thing>=1.0", "bad")
    code, output = project.run()
    assert code == 1
    error = get_error_line(output)
    assert "pip failed:" in error
    assert "bad" in error
    assert "too new" not in error
