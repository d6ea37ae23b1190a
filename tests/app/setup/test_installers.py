"""Installation with uv, with pip, and of torch without CUDA."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from app.setup.environment import Environment
from app.setup.failures import SetupError
from app.setup.installers import HAS_CUDA_DEFAULT, run_pip
from tests.fixtures.setup_project import Project, get_uv_settings, make_index

pytestmark = pytest.mark.slow


def test_run_app_installs_a_package_that_is_only_on_the_search_path(project: Project, tmp_path: Path):
    with zipfile.ZipFile(next(project.wheels.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "elsewhere")
    code, output = project.run(PYTHONPATH=str(tmp_path / "elsewhere"), CRLC_OWN_ENVIRONMENT="1")
    assert code == 0, output
    assert (project.site_packages / "thing.py").exists()


def test_run_app_installs_with_uv_where_it_is_installed(project: Project):
    code, output = project.run(**get_uv_settings(project))
    assert code == 0, output
    assert "needs with uv" in output
    assert output.splitlines()[-1].startswith("APP 1.0")
    assert not (project.folder / ".venv" / "install.log").exists()
    (module,) = (project.folder / ".venv").glob("**/site-packages/thing.py")

    module.unlink()  # as a killed setup leaves it
    project.stamp_file.unlink()
    assert project.run(**get_uv_settings(project))[1].splitlines()[-1].startswith("APP 1.0")


def test_run_app_installs_with_pip_when_uv_fails(project: Project):
    project.require(f"--find-links {project.wheels}", "--no-index", "thing>=1.0")
    code, output = project.run(**{**get_uv_settings(project), "UV_CACHE_DIR": "/dev/null/no-folder"})
    assert code == 0, output
    assert "uv has failed; installing with pip instead." in output
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_installs_a_file_with_pip_that_is_empty_in_the_cache_of_uv(project: Project):
    """uv links files to those in its cache, so emptying a file empties both."""
    project.require(f"--find-links {project.wheels}", "--no-index", "thing>=1.0")
    settings = {**get_uv_settings(project), "UV_LINK_MODE": "hardlink"}
    code, output = project.run(**settings)
    assert code == 0, output
    module = project.site_packages / "thing.py"
    module.write_bytes(b"")
    code, output = project.run(**settings)
    assert code == 0, output
    assert ("needs with uv" in output, "needs with pip" in output) == (True, True)
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_does_not_use_uv_if_pip_has_settings_that_uv_ignores(project: Project):
    code, output = project.run(PATH=get_uv_settings(project)["PATH"])
    assert code == 0, output
    assert "needs with pip" in output


@pytest.mark.skipif(not HAS_CUDA_DEFAULT, reason="torch from PyPI has no CUDA here")
def test_run_app_installs_torch_without_cuda(project: Project):
    """Fake packages in local folders; the server of PyTorch is not asked."""
    plain, cpu = project.folder.parent / "plain", project.folder.parent / "cpu"
    for package in ("torch", "torchvision"):
        make_index(plain, package, "2.0")
        make_index(cpu, package, "1.5+cpu")  # may be older than the newest version with CUDA
    make_index(plain, "thing", "1.0")
    project.require("torch", "torchvision", "thing>=1.0")
    print_torch = "from importlib.metadata import version\nprint('APP', version('torch'), version('torchvision'))\n"
    (project.folder / "app" / "__main__.py").write_text(print_torch)
    servers = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": plain.as_uri(), "CRLC_OWN_ENVIRONMENT": "1"}

    assert project.run(**servers)[1].splitlines()[-1] == "APP 2.0 2.0"
    code, output = project.run("--cpu", **servers, CRLC_CPU_INDEX=cpu.as_uri())  # replaces the one with CUDA
    assert (code, output.splitlines()[-1]) == (0, "APP 1.5+cpu 1.5+cpu"), output
    # From then on, the environment stays without CUDA, also when packages are added.
    make_index(plain, "other", "1.0")
    project.require("torch", "torchvision", "thing>=1.0", "other")
    code, output = project.run(**servers, CRLC_CPU_INDEX=cpu.as_uri())
    assert (code, output.splitlines()[-1]) == (0, "APP 1.5+cpu 1.5+cpu"), output
    assert "Creating" not in output
    assert project.run("--cpu", **servers)[1] == "APP 1.5+cpu 1.5+cpu\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a shell script as interpreter, and SIGKILL")
def test_pip_that_the_system_has_killed_lacked_memory(tmp_path: Path):
    environment = Environment(tmp_path / ".venv")
    environment.python.parent.mkdir(parents=True)
    environment.python.write_text("#!/bin/sh\nkill -9 $$\n")
    environment.python.chmod(0o755)
    with pytest.raises(SetupError, match="not enough memory"):
        run_pip(environment, ["thing"])
