"""Rules of the architecture: allowed imports between packages, and the maximum length of files."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Layers, the lowest first. A module may import from its own package and from lower layers: the lines above its own.
# Packages of the same layer do not import each other, so no import cycle between packages is possible.
LAYERS = (
    (
        "crlc.array_files",
        "crlc.arrays",
        "crlc.errors",
        "crlc.installation",
        "crlc.json_schema",
        "crlc.paths",
        "crlc.progress",
        "crlc.backbone_catalogue",
    ),
    ("crlc.files", "crlc.validation", "crlc.formatting", "crlc.subprocesses"),
    ("crlc.data",),
    ("crlc.losses", "crlc.model"),
    ("crlc.analysis",),
    ("crlc.runs", "crlc.annotations"),
    ("crlc.training",),
    ("crlc.workspace",),
    ("crlc.clusters",),
    ("crlc.export",),
    ("crlc.services",),
    ("crlc.jobs", "crlc.estimator"),
    ("crlc.cli",),
    ("crlc.__main__",),
    ("app.setup",),
    ("app.figures", "app.background", "app.urls"),
    ("app.view_models",),
    ("app.server.routes",),
    ("app.state",),
    ("app.navigation",),
    ("app.components.common",),
    ("app.components.gallery",),
    ("app.components.map",),
    ("app.components.training", "app.components.datasets"),
    ("app.components.clusters", "app.components.runs"),
    ("app.components.labelling",),
    ("app.components.explore",),
    ("app.pages",),
    ("app.server",),
    ("app.__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SETUP_PACKAGE = "app.setup"  # runs before any requirement is installed
MAX_FILE_LINES = 400
SOURCES = sorted([ROOT / "run_app.py", *(ROOT / "crlc").rglob("*.py"), *(ROOT / "app").rglob("*.py")])
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/decisions.md")
DOCUMENTED_FOLDERS = [ROOT / name for name in ("crlc", "app", "tests", "benchmarks", "assets")]
ALL_PYTHON_FILES = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]


def get_module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_layer(module: str) -> str | None:
    """Return the package of a module in LAYERS: the longest listed name that contains it."""
    packages = (name for name in LEVEL if module == name or module.startswith(name + "."))
    return max(packages, key=len, default=None)


def find_imports(source: str) -> set[str]:
    """Return every module that a source imports anywhere in the file; `from a import b` counts as a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_part_of_setup(module: str) -> bool:
    """Return whether a module belongs to the setup, or is the package `app`, which it has to import."""
    return module in ("run_app", "app", SETUP_PACKAGE) or module.startswith(f"{SETUP_PACKAGE}.")


def find_violations(module: str, source: str) -> list[str]:
    """Return a message for each import that the layers forbid."""
    own = find_layer(module)
    found = []
    for imported in find_imports(source):
        package = imported.split(".")[0]
        if is_part_of_setup(module) and not is_part_of_setup(imported) and package not in sys.stdlib_module_names:
            found.append(f"{module} imports {imported}, which is not in the standard library")
        if module.startswith("crlc") and package == "streamlit":
            found.append(f"{module} imports {imported}")
        other = find_layer(imported)
        if own is not None and other not in (None, own) and LEVEL[other] >= LEVEL[own]:
            found.append(f"{module} imports {imported}, which is not in a lower layer")
    return found


@pytest.mark.parametrize("file", SOURCES, ids=get_module_name)
def test_imports_are_from_lower_layers(file: Path):
    module = get_module_name(file)
    assert module in ("crlc", "app", "app.components", "run_app") or find_layer(module), (
        f"{module} belongs to no layer: add it to LAYERS"
    )
    assert find_violations(module, file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source", "is_wrong"),
    [
        ("crlc.data.decode", "from crlc.workspace import Workspace", True),
        ("crlc.data.decode", "def f():\n    import streamlit.web", True),
        ("crlc.losses.entropy", "import crlc.model.heads", True),
        ("crlc.errors", "from crlc import paths", True),
        ("crlc.workspace.runs", "from app import urls", True),
        ("crlc.data.decode", "from crlc.data.sources import Source\nfrom crlc.errors import CrlcError", False),
        ("app.server.asgi", "import streamlit\nfrom crlc.workspace import Workspace", False),
        ("app.server.routes.images", "from app.server.asgi import serve", True),
        ("app.state.selection", "from app.components.common import heading", True),
        ("app.setup.packages", "from crlc.errors import CrlcError", True),
        ("app.setup.packages", "import filelock", True),
        ("app", "from app.urls import build_image_url", True),
        ("run_app", "import sys\nfrom app.setup.failures import SetupError", False),
    ],
)
def test_find_violations_reports_forbidden_imports(module: str, source: str, is_wrong: bool):
    assert bool(find_violations(module, source)) == is_wrong


@pytest.mark.parametrize(
    "file",
    [*ALL_PYTHON_FILES, *sorted(ROOT.glob("app/**/*.js")), *sorted(ROOT.glob("crlc/**/*.js"))],
    ids=get_module_name,
)
def test_file_is_short_and_has_a_specific_name(file: Path):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    assert file.name not in ("utils.py", "helpers.py", "common.py")


def test_architecture_page_lists_the_layers():
    listed: defaultdict[int, set[str]] = defaultdict(set)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for layer, packages in re.findall(r"^\| (\d+) \| ([^|]+) \|", page, re.MULTILINE):
        listed[int(layer)] |= {name.replace("/", ".") for name in re.findall(r"`([^`]+)`", packages)}
    assert listed == {number: set(names) for number, names in enumerate(LAYERS, start=1)}


@pytest.mark.parametrize("page", DOCUMENTS)
def test_documents_name_existing_files(page: str):
    """Each path in backticks exists, as a whole or as the end of one."""
    tracked = {"/" + file.relative_to(ROOT).as_posix() for folder in DOCUMENTED_FOLDERS for file in folder.rglob("*")}
    named = re.findall(r"`([\w./-]+(?:\.(?:py|js|css|html|tsv)|/))`", (ROOT / page).read_text(encoding="utf-8"))
    missing = [name for name in named if not any(path.endswith("/" + name.strip("/")) for path in tracked)]
    exempt = {"utils.py", "tests/artifacts/"}  # does not exist by rule; exists after a browser test
    assert not [name for name in missing if not (ROOT / name).exists() and name not in exempt]


@pytest.mark.parametrize("page", DOCUMENTS)
def test_documents_name_existing_code(page: str):
    """Each name in "`NAME` of `file.py`" and "`NAME` (`file.py`" is in that file."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for name, path in re.findall(r"`([\w.]+)`(?: of| in| \() ?`([\w./-]+\.(?:py|js))`", text):
        files = [file for folder in DOCUMENTED_FOLDERS for file in folder.rglob(f"*{Path(path).name}")]
        sources = [file.read_text(encoding="utf-8") for file in files if file.as_posix().endswith("/" + path)]
        word = name.rpartition(".")[2]
        assert any(re.search(rf"\b{word}\b", source) for source in sources), f"{path} has no {name}"


def test_only_app_state_uses_the_session_state():
    pattern = re.compile(r"\bst\.(session_state|query_params)\b")
    users = {file.parent for file in SOURCES if pattern.search(file.read_text(encoding="utf-8"))}
    assert users == {ROOT / "app" / "state"}


def test_public_classes_and_functions_have_unique_names():
    """One word has one meaning: a reader who finds a name needs no module name to know what it is."""
    modules_by_name: defaultdict[str, list[str]] = defaultdict(list)
    for file in SOURCES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                modules_by_name[node.name].append(get_module_name(file))
    shared = {name: modules for name, modules in modules_by_name.items() if len(modules) > 1}
    assert shared.keys() == {"main", "render"}, shared  # of scripts and of pages


def test_doctor_checks_all_requirements():
    from crlc.cli.doctor import PACKAGES

    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {re.split(r"[>=;]", line)[0] for line in lines if line and not line.startswith("#")}
    assert set(PACKAGES) == named


def test_installed_command_exists():
    import tomllib
    from importlib import import_module

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["scripts"]["crlc"].partition(":")
    assert callable(getattr(import_module(module), function))


def test_only_one_module_reads_array_files():
    """NumPy raises errors of many types for damaged files; `crlc.array_files` converts them to `ValueError`."""
    pattern = re.compile(r"\bnp\.(load|lib\.format\.read_\w+)\(|\bread_array_header_\d|\bnpy_format\.")
    users = {get_module_name(file) for file in SOURCES if pattern.search(file.read_text(encoding="utf-8"))}
    assert users == {"crlc.array_files"}
