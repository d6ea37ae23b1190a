"""`python run_app.py`: the first start, the arguments of the app, and an old Python."""

from __future__ import annotations

import ast
import shutil
import tomllib
from pathlib import Path

import pytest

import run_app
from app.setup.environment import MIN_PYTHON
from tests.conftest import ROOT
from tests.fixtures.setup_project import Project, create_project, get_error_line, make_wheel


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_project(tmp_path)


@pytest.mark.slow
def test_run_app_installs_on_the_first_start_only(project: Project):
    code, output = project.run("--no-browser", "--port", "8599", "--workspace", "here")
    assert code == 0, output
    assert "Creating an environment" in output
    started = output.splitlines()[-1]
    workspace = project.folder.parent / "here"
    assert started == f"APP 1.0 {project.folder / '.venv'} --no-browser --port 8599 --workspace {workspace}"

    code, output = project.run()
    assert (code, output.splitlines()) == (0, [f"APP 1.0 {project.folder / '.venv'}"])
    assert project.run("--window", "--host", "0.0.0.0")[1].strip().endswith(" --window --host 0.0.0.0")

    make_wheel(project.wheels, "2.0")
    project.require("thing>=2.0")
    code, output = project.run()
    assert code == 0
    assert "Creating an environment" not in output
    assert output.splitlines()[-1].startswith("APP 2.0")

    project.stamp_file.write_text("{ half a file")
    code, output = project.run()
    assert code == 0
    assert output.splitlines()[-1].startswith("APP 2.0")


@pytest.mark.slow
def test_run_app_does_not_start_an_app_of_the_current_folder(project: Project):
    foreign = project.folder.parent / "app"
    foreign.mkdir()
    (foreign / "__init__.py").touch()
    (foreign / "__main__.py").write_text("print('FOREIGN')")
    code, output = project.run()
    assert code == 0
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_refuses_an_old_python():
    # An old Python must be able to parse the file, or it could not report that it is too old.
    ast.parse((ROOT / "run_app.py").read_text(encoding="utf-8"), feature_version=(3, 6))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or later; this is 3\.10"):
        run_app.check_python((3, 10))
    run_app.check_python((3, 11))


def test_minimum_python_is_the_same_in_all_files():
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert run_app.MIN_PYTHON == MIN_PYTHON
    assert needed == ">=" + ".".join(map(str, MIN_PYTHON))


def test_run_app_explains_an_incomplete_project(project: Project):
    shutil.rmtree(project.folder / "app")
    code, output = project.run()
    assert code == 1
    assert "app/setup/preparation.py" in get_error_line(output)
    assert "Download the whole project" in output
