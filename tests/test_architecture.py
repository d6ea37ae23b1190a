"""The rules that keep the project readable: who may import whom, and how long a file may grow."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

# From the bottom up. A module may import from its own layer's package and from layers below it.
LAYERS = (
    ("crlc.errors", "crlc.names", "crlc.progress"),
    ("crlc.files", "crlc.config"),
    ("crlc.data",),
    ("crlc.losses", "crlc.memory_bank", "crlc.model"),
    ("crlc.analysis",),
    ("crlc.training",),
    ("crlc.workspace",),
    ("crlc.jobs",),
    ("crlc.estimator",),
    ("crlc.cli",),
    ("crlc.__main__",),
    ("app",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
LONGEST_FILE = 420
SOURCES = sorted([*(ROOT / "crlc").rglob("*.py"), *(ROOT / "app").rglob("*.py")])
EVERYTHING = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str | None:
    return next((name for name in LEVEL if module == name or module.startswith(name + ".")), None)


def imported_modules(source: str) -> set[str]:
    """Every module a source imports, wherever in the file; `from a import b` counts as a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def violations(module: str, source: str) -> list[str]:
    own = layer_of(module)
    wrong = []
    for imported in imported_modules(source):
        if module.startswith("crlc") and imported.split(".")[0] == "streamlit":
            wrong.append(f"{module} imports {imported}")
        other = layer_of(imported)
        if own is not None and other not in (None, own) and LEVEL[other] >= LEVEL[own]:
            wrong.append(f"{module} imports {imported}, which is not below it")
    return wrong


@pytest.mark.parametrize("file", SOURCES, ids=module_name)
def test_imports_point_downward(file: Path):
    module = module_name(file)
    assert module == "crlc" or layer_of(module), f"{module} belongs to no layer: add it to LAYERS"
    assert violations(module, file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source", "is_wrong"),
    [
        ("crlc.data.decode", "from crlc.workspace import Workspace", True),
        ("crlc.data.decode", "def f():\n    import streamlit.web", True),
        ("crlc.losses.entropy", "import crlc.model.heads", True),
        ("crlc.errors", "from crlc import names", True),
        ("crlc.workspace.runs", "from app import server", True),
        ("crlc.data.decode", "from crlc.data.sources import Source\nfrom crlc.errors import CrlcError", False),
        ("app.server", "import streamlit\nfrom crlc.workspace import Workspace", False),
    ],
)
def test_the_rule_itself(module: str, source: str, is_wrong: bool):
    assert bool(violations(module, source)) == is_wrong


@pytest.mark.parametrize("file", [*EVERYTHING, *sorted((ROOT / "app").rglob("*.js"))], ids=module_name)
def test_files_stay_short(file: Path):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
    assert file.name not in ("utils.py", "helpers.py", "common.py")


def test_doctor_knows_all_requirements():
    from crlc.cli.doctor import PACKAGES

    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {re.split(r"[>=]", line)[0] for line in lines if line and not line.startswith("#")}
    assert set(PACKAGES) == named


def test_the_installed_command_exists():
    import tomllib
    from importlib import import_module

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["scripts"]["crlc"].partition(":")
    assert callable(getattr(import_module(module), function))
