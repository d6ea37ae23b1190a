"""Requirements files, and interpreters that have all requirements."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from app.setup.requirements import is_satisfied, list_missing, parse_version, read_requirements
from tests.conftest import ROOT
from tests.fixtures.setup_project import Project, make_wheel


@pytest.mark.slow
def test_run_app_uses_an_interpreter_that_has_all_requirements(new_project: Project):
    new_project.require("pytest>=1.0", "hypothesis")
    (new_project.folder / "app" / "__main__.py").write_text("import sys\nprint('APP', sys.prefix)\n")
    code, output = new_project.run()
    assert (code, output.strip()) == (0, f"APP {sys.prefix}")
    assert not (new_project.folder / ".venv").exists()
    # With its own environment, the app needs wheels of these packages, and there are none.
    assert new_project.run(CRLC_OWN_ENVIRONMENT="1")[0] == 1
    assert (new_project.folder / ".venv").exists()


@pytest.mark.parametrize(
    "damage", ["only METADATA", "no METADATA", "an emptied file", "no RECORD", "a damaged RECORD", "no tests"]
)
def test_run_app_checks_the_packages_of_the_users_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
):
    modules = ("gadgets/__init__.py", "gadgets/tests/__init__.py")
    make_wheel(tmp_path / "wheels", "1.0", package="gadget", modules=modules, content=b"X = 1\n")
    with zipfile.ZipFile(next((tmp_path / "wheels").glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert is_satisfied("gadget>=1.0")
    assert not is_satisfied("gadget>=1.1")
    site = tmp_path / "site"
    information = site / "gadget-1.0.dist-info"
    if damage == "an emptied file":
        (site / "gadgets" / "__init__.py").write_bytes(b"")
    if damage == "no tests":
        shutil.rmtree(site / "gadgets" / "tests")
    if damage == "no METADATA":
        (information / "METADATA").unlink()
    if damage == "a damaged RECORD":
        (information / "RECORD").write_bytes(b"\xff\x00")
    if damage in ("only METADATA", "no RECORD"):
        (information / "RECORD").unlink()
    if damage == "only METADATA":
        (site / "gadget.py").unlink()
    assert is_satisfied("gadget>=1.0") == (damage in ("no RECORD", "no tests"))  # as Debian and conda install packages


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.10.0+cu128", (2, 10)), ("1.0", (1,)), ("", ()), ("2.0rc1", (2,)), ("26.1", (26, 1))],
)
def test_parse_version_returns_the_numbers(version: str, numbers: tuple[int, ...]):
    assert parse_version(version) == numbers


def test_requirements_do_not_pin_a_build_of_torch():
    lines = read_requirements([ROOT / "requirements.txt"])
    assert {"torch", "torchvision"} <= set(lines)
    assert all(">=" in line for line in lines if line not in ("torch", "torchvision"))


def test_list_missing_compares_names_in_all_their_spellings():
    requirements = [
        "Scikit_Learn>=1.6",
        "uvicorn[standard]",
        "--no-index",
        "openvino; platform_machine in 'x86_64'",
        "tqdm",
    ]
    assert list_missing(requirements, ["scikit_learn-1.7.dist-info", "uvicorn-0.44.dist-info"]) == ["tqdm"]
