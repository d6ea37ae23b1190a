"""The built wheel: it has every file, and its app runs in an environment that cannot see the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from crlc import __version__
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.app.conftest import WAIT_MS, end_app
from tests.conftest import ROOT
from tests.fixtures.browser import button, by_key, fill, import_and_explore
from tests.fixtures.images import save_images

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Folders of the checkout, and their folders in the wheel.
PACKAGED_FOLDERS = {"crlc": "crlc", "app": "crlc_studio/app", "assets": "crlc_studio/assets"}
IMAGES, EPOCHS = 24, 2
TRAINING_TIMEOUT_MS = 180_000


def run(*command: object, **options: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel; its build backend is one of the requirements of the tests, so nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.iterdir()
    assert built.name == f"crlc_studio-{__version__}-py3-none-any.whl"
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a new environment, which sees the other packages of this interpreter."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = next(file for file in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if file.exists())
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    variables = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", variables))
    # Python does not read the .pth files of a folder that is added in this way, so a checkout that is installed in
    # this interpreter stays out of sight.
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "requirements-of-the-tests.pth").write_text("".join(f"{path}\n" for path in sorted(others)))
    return python.parent


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Return the environment variables of this process without those that show a checkout to Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CRLC_WORKSPACE")}


@pytest.fixture
def installed_app(environment: Path, variables: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """Run `crlc app` of the installed wheel, with the example, and yield its URL."""
    command = [environment / "crlc", "app", "--no-browser", "--workspace", tmp_path / "workspace"]
    process = subprocess.Popen([*map(str, command)], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("CRLC Studio is at http://"), line
    yield line.split()[4]
    end_app(process)


def test_wheel_has_every_file_of_its_packages(wheel: Path):
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGED_FOLDERS, cwd=ROOT)
    expected = set()
    for line in listed.splitlines():
        folder, _, rest = line.partition("/")
        expected.add(f"{PACKAGED_FOLDERS[folder]}/{rest}")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    scripts = {name for name in expected if name.startswith("crlc_studio/assets/") and name.endswith(".py")}
    assert names == expected - scripts


def test_wheel_does_not_show_app_or_assets_to_other_programs(
    environment: Path, variables: dict[str, str], tmp_path: Path
):
    probe = "import importlib.util as u, crlc; print(u.find_spec('app'), u.find_spec('assets'), crlc.__file__)"
    found, assets, file = run(environment / "python", "-P", "-c", probe, cwd=tmp_path, env=variables).split()
    assert (found, assets) == ("None", "None")
    assert Path(file).is_relative_to(environment.parent)


def test_installed_app_imports_explores_and_trains(installed_app: str, browser: Browser, tmp_path: Path):
    save_images(tmp_path / "images", IMAGES)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(WAIT_MS)
    page.goto(installed_app)
    button(page, "explore-digits").click()  # the example, from the assets in the wheel
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "1797")

    page.goto(installed_app)
    import_and_explore(page, tmp_path / "images")  # decoded by worker processes of the installed package
    expect(page.get_by_test_id("stMain").locator("img").first).to_be_visible()

    page.goto(f"{installed_app}/train?dataset=images")
    by_key(page, "advanced-settings").locator("summary").click()
    fill(page, "train-set-epochs", EPOCHS)
    expect(page.get_by_text(f"--epochs {EPOCHS}")).to_be_visible()
    button(page, "start-training").click()
    expect(page.get_by_role("heading", name="Finished", exact=True)).to_be_visible(timeout=TRAINING_TIMEOUT_MS)
    assert page.get_by_test_id("stException").count() == 0
    page.close()
    assert len(RunStore(Workspace(tmp_path / "workspace")).list_ids()) == 2
