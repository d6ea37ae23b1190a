"""Tests of `python run_app.py` with complete, incomplete and missing environments; tiny packages replace torch."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import run_app
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

APP = "import sys, thing\nprint('APP', thing.VERSION, sys.prefix, *sys.argv[1:])\n"


def make_wheel(
    folder: Path,
    version: str,
    extra: str = "",
    ballast: int = 0,
    package: str = "thing",
    modules: tuple[str, ...] = (),
) -> None:
    """Write a wheel of a package that contains only its version, and optionally some bytes and empty modules."""
    folder.mkdir(exist_ok=True)
    information = f"{package}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{extra}"
    files = {
        f"{package}.py": f"VERSION = '{version}'\n".encode(),
        f"{package}-ballast.bin": bytes(ballast),
        **dict.fromkeys(modules, b""),
        f"{information}/METADATA": metadata.encode(),
        f"{information}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{information}/RECORD"))  # uv copies only what is listed
    with zipfile.ZipFile(folder / f"{package}-{version}-py3-none-any.whl", "w") as wheel:
        for name, content in {**files, f"{information}/RECORD": record.encode()}.items():
            wheel.writestr(name, content)


class Project:
    """A copy of run_app.py with an app that only prints the installed version of `thing`."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        self.wheels = wheels
        (folder / "app").mkdir(parents=True)
        (folder / "app" / "__init__.py").touch()
        (folder / "app" / "__main__.py").write_text(APP)
        shutil.copy(ROOT / "run_app.py", folder)
        self.require("thing>=1.0")

    def require(self, *lines: str) -> None:
        (self.folder / "requirements.txt").write_text("# packages of the app\n" + "\n".join(lines) + "\n")

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        # Only the wheels that the test made can be installed, even if pip is configured otherwise on this computer.
        settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "CRLC_"))}
        return subprocess.Popen(
            [sys.executable, str(self.folder / "run_app.py"), *arguments],
            env={**inherited, **settings, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder.parent,  # the current folder must not matter
            start_new_session=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(*arguments, **environment)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output


@pytest.fixture
def project(tmp_path: Path) -> Project:
    make_wheel(tmp_path / "wheels", "1.0")
    return Project(tmp_path / "project", tmp_path / "wheels")


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

    (project.folder / ".venv" / "crlc-ready.json").write_text("{ half a file")
    code, output = project.run()
    assert code == 0
    assert output.splitlines()[-1].startswith("APP 2.0")


def test_run_app_uses_an_interpreter_that_has_all_requirements(project: Project):
    project.require("pytest>=1.0", "hypothesis")
    (project.folder / "app" / "__main__.py").write_text("import sys\nprint('APP', sys.prefix)\n")
    code, output = project.run()
    assert (code, output.strip()) == (0, f"APP {sys.prefix}")
    assert not (project.folder / ".venv").exists()
    # With its own environment, the app needs wheels of these packages, and there are none.
    assert project.run(CRLC_OWN_ENVIRONMENT="1")[0] == 1
    assert (project.folder / ".venv").exists()


@pytest.mark.parametrize("state", ["an empty folder", "a dead interpreter", "no pip"])
def test_run_app_repairs_an_incomplete_environment(project: Project, state: str):
    python = project.folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    if state == "a dead interpreter":
        os.symlink("/nowhere/python3", python)
    if state == "no pip":
        shutil.rmtree(project.folder / ".venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project.folder / ".venv")], check=True)
    code, output = project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["Creating an environment", "Installing"])
def test_run_app_continues_a_killed_setup(project: Project, moment: str):
    process = project.start()
    for line in process.stdout:
        if line.startswith(moment):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    code, output = project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


@pytest.mark.parametrize("damage", ["no RECORD and no files", "no files"])
def test_run_app_reinstalls_a_package_that_a_killed_setup_left_incomplete(project: Project, damage: str):
    """pip alone regards a package with metadata as installed."""
    assert project.run()[0] == 0
    (module,) = (project.folder / ".venv").glob("lib/python*/site-packages/thing.py")
    module.unlink()
    if damage == "no files":
        (project.folder / ".venv" / "crlc-ready.json").unlink()
    else:
        (module.parent / "thing-1.0.dist-info" / "RECORD").unlink()
    code, output = project.run()
    assert code == 0, output
    assert output.splitlines()[-1].startswith("APP 1.0")


def find_site_packages(project: Project) -> Path:
    return next((project.folder / ".venv").glob("lib/python*/site-packages"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda site: shutil.rmtree(site / "thing-1.0.dist-info"),
        lambda site: (site / "thing-1.0.dist-info" / "RECORD").write_text(""),
        lambda site: (site / "thing-1.0.dist-info" / "RECORD").write_text("thing.py,,\n" + "#" * 9),
        lambda site: (site / "thing-1.0.dist-info" / "METADATA").unlink(),
        lambda site: (site / "thing.py").unlink(),
        lambda site: shutil.rmtree(site / "parts" / "inner"),
        lambda site: shutil.rmtree(site / "parts-1.0.dist-info"),
    ],
)
def test_run_app_reinstalls_a_package_that_was_damaged_after_the_setup(project: Project, damage):
    make_wheel(project.wheels, "1.0", package="parts", modules=("parts/__init__.py", "parts/inner/__init__.py"))
    make_wheel(project.wheels, "1.0", extra="Requires-Dist: parts\n")
    code, output = project.run()
    assert code == 0, output
    assert len(project.run()[1].splitlines()) == 1  # nothing is installed again
    site = find_site_packages(project)
    damage(site)
    code, output = project.run()
    assert code == 0, output
    assert "Installing" in output
    for name in ("thing.py", "parts/inner/__init__.py", "thing-1.0.dist-info/METADATA", "parts-1.0.dist-info/RECORD"):
        assert (site / name).exists(), name
    assert len(project.run()[1].splitlines()) == 1


def test_run_app_installs_once_for_two_starts(project: Project):
    first = project.start()
    assert first.stdout.readline().startswith("Creating an environment")
    second = project.start()
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert [output.splitlines()[-1].startswith("APP 1.0") for output in outputs] == [True, True]
    assert "waiting for it" in outputs[1]
    assert "Installing" not in outputs[1]


def get_error_line(output: str) -> str:
    """Return the last line, after checking that it is an error without a traceback."""
    last = output.rstrip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in output
    return last


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


def test_run_app_does_not_start_an_app_of_the_current_folder(project: Project):
    foreign = project.folder.parent / "app"
    foreign.mkdir()
    (foreign / "__init__.py").touch()
    (foreign / "__main__.py").write_text("print('FOREIGN')")
    code, output = project.run()
    assert code == 0
    assert output.splitlines()[-1].startswith("APP 1.0")


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


def test_run_app_refuses_an_old_python():
    # An old Python must be able to parse the file, or it could not report that it is too old.
    ast.parse((ROOT / "run_app.py").read_text(encoding="utf-8"), feature_version=(3, 6))
    with pytest.raises(run_app.SetupError, match=r"needs Python 3\.11 or later; this is 3\.10"):
        run_app.check_python((3, 10, 4))
    run_app.check_python((3, 11))


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.10.0+cu128", (2, 10)), ("1.0", (1,)), ("", ()), ("2.0rc1", (2,)), ("26.1", (26, 1))],
)
def test_parse_version_returns_the_numbers(version: str, numbers: tuple[int, ...]):
    assert run_app.parse_version(version) == numbers


def test_requirements_do_not_pin_a_build_of_torch():
    lines = run_app.read_requirements(ROOT / "requirements.txt")
    assert {"torch", "torchvision"} <= set(lines)
    assert all(">=" in line for line in lines if line not in ("torch", "torchvision"))


def make_index(folder: Path, package: str, version: str) -> None:
    """Write a wheel of a package without files, and list it as a package server does."""
    entry = folder / package
    entry.mkdir(parents=True)
    name = f"{package}-{version}-py3-none-any.whl"
    make_wheel(entry, version, package=package)
    (entry / "index.html").write_text(f"<a href='{name}'>{name}</a>")


def find_uv() -> str:
    """Return the folder of uv, which is a requirement of the tests."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert uv is not None
    return str(Path(uv).parent)


def get_uv_settings(project: Project) -> dict[str, str]:
    """Return variables with which only uv finds the wheels of the test."""
    search_path = os.pathsep.join([find_uv(), os.environ["PATH"]])
    wheels = {"UV_NO_CONFIG": "1", "UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_FIND_LINKS": str(project.wheels)}
    own_cache = {"UV_CACHE_DIR": str(project.folder.parent / "uv-cache")}
    return {"PATH": search_path, "PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", **wheels, **own_cache}


def test_run_app_installs_with_uv_where_it_is_installed(project: Project):
    code, output = project.run(**get_uv_settings(project))
    assert code == 0, output
    assert "needs with uv" in output
    assert output.splitlines()[-1].startswith("APP 1.0")
    assert not (project.folder / ".venv" / "install.log").exists()
    (module,) = (project.folder / ".venv").glob("**/site-packages/thing.py")

    module.unlink()  # as a killed setup leaves it
    (project.folder / ".venv" / "crlc-ready.json").unlink()
    assert project.run(**get_uv_settings(project))[1].splitlines()[-1].startswith("APP 1.0")


def test_run_app_installs_with_pip_when_uv_fails(project: Project):
    project.require(f"--find-links {project.wheels}", "--no-index", "thing>=1.0")
    code, output = project.run(**{**get_uv_settings(project), "UV_CACHE_DIR": "/dev/null/no-folder"})
    assert code == 0, output
    assert "uv has failed; installing with pip instead." in output
    assert output.splitlines()[-1].startswith("APP 1.0")


def test_run_app_does_not_use_uv_if_pip_has_settings_that_uv_ignores(project: Project):
    code, output = project.run(PATH=get_uv_settings(project)["PATH"])
    assert code == 0, output
    assert "needs with pip" in output


@pytest.mark.skipif(not run_app.HAS_CUDA_DEFAULT, reason="torch from PyPI has no CUDA here")
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
