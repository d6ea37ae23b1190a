"""Setups that are interrupted, repeated, or whose result is checked."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest

from tests.fixtures.setup_project import Project, get_error_line, make_wheel

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["Creating an environment", "Installing"])
def test_run_app_continues_a_killed_setup(new_project: Project, moment: str):
    process = new_project.start()
    for line in process.stdout:
        if line.startswith(moment):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    code, output = new_project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_installs_once_for_two_starts(new_project: Project):
    first = new_project.start()
    assert first.stdout.readline().startswith("Creating an environment")
    second = new_project.start()
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert [output.splitlines()[-1].startswith("APP 1.0") for output in outputs] == [True, True]
    assert "waiting for it" in outputs[1]
    assert "Installing" not in outputs[1]


def test_run_app_installs_again_after_an_interrupted_update(project: Project):
    assert project.run()[0] == 0
    make_wheel(project.wheels, "2.0")
    (project.wheels / "bad-1.0-py3-none-any.whl").write_bytes(b"not a wheel")
    project.require("thing>=2.0", "bad")
    assert project.run()[0] == 1
    project.require("thing>=1.0")
    code, output = project.run()
    assert code == 0
    assert "Installing" in output


def test_run_app_repairs_a_stamped_environment_without_a_required_package(project: Project):
    make_wheel(project.wheels, "1.0", package="parts")
    project.require("thing>=1.0", "parts")
    assert project.run()[0] == 0
    stamp_file, site = project.stamp_file, project.site_packages
    stamp = json.loads(stamp_file.read_text())
    stamp["packages"] = {name: found for name, found in stamp["packages"].items() if "/parts-" not in name}
    stamp_file.write_text(json.dumps(stamp))
    shutil.rmtree(site / "parts-1.0.dist-info")
    (site / "parts.py").unlink()
    code, output = project.run()
    assert code == 0, output
    assert (site / "parts.py").exists()


def test_run_app_does_not_accept_a_library_that_cannot_be_imported(project: Project):
    make_wheel(project.wheels, "12.0", package="pillow", modules=("PIL/__init__.py", "PIL/Image.py"), content=b"1 / 0")
    project.require("thing>=1.0", "pillow>=11.3")
    code, output = project.run(CRLC_OWN_ENVIRONMENT="1")
    assert code == 1
    assert "PIL.Image cannot be imported (ZeroDivisionError: division by zero)" in get_error_line(output)
    assert not project.stamp_file.exists()
