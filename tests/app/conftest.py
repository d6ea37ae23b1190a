"""A running app and a browser; and workspaces for pages without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from app.measuring import close_measuring
from crlc.cli.main import main
from crlc.jobs.shared import close_queues
from crlc.workspace import Workspace
from crlc.workspace.sample import decline_sample
from tests.conftest import ROOT

ARTIFACTS = ROOT / "tests" / "artifacts"
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class RunningApp:
    url: str
    workspace: Workspace
    pid: int


def start_app(workspace: Workspace, *options: str, example: bool = False) -> tuple[subprocess.Popen[str], str]:
    """The real server as a process, and its address; it ends with `end_app`. By default it brings no example."""
    if not example:
        decline_sample(workspace)
    command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(workspace.root), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("CRLC Studio is at http://"), line
    return process, line.split()[4]


def end_app(process: subprocess.Popen[str]) -> str:
    """What it printed since it was there."""
    process.terminate()
    rest = process.stdout.read()
    assert process.wait(20) in (0, -15)
    process.stdout.close()
    return rest


def find_chromium() -> str | None:
    """The browser of this computer, if it has one."""
    return next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)


def require_chromium() -> str:
    """The browser; without one, tests are skipped, but never where CI should have installed it."""
    executable = find_chromium()
    if executable is None and os.environ.get("CI"):
        pytest.fail("no Chromium on this machine: CI must install one")
    if executable is None:
        pytest.skip("no Chromium or Chrome on this computer; install one to run the browser tests")
    return executable


@pytest.fixture
def app(tmp_path: Path) -> Iterator[RunningApp]:
    """The real server, on an empty workspace of its own."""
    workspace = Workspace(tmp_path / "workspace")
    process, url = start_app(workspace)
    yield RunningApp(url, workspace, process.pid)
    end_app(process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = require_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, app: RunningApp, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A browser page on the app; what it showed last is kept as a picture."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(30_000)
    page.goto(app.url)
    yield page
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{request.node.name}.png")
    page.close()


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with 200 digits and two tiny finished runs of them; not to be changed."""
    root = tmp_path_factory.mktemp("trained") / "workspace"
    assert main(["import", "digits", "--limit", "200", "--workspace", str(root)]) == 0
    for seed in ("1", "2"):
        assert main(["train", "digits", "--epochs", "2", "--seed", seed, "--workspace", str(root)]) == 0
    return root


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """The app's workspace, with nothing in it."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(tmp_path / "workspace"))
    yield Workspace()
    close_measuring()
    close_queues()


@pytest.fixture
def trained(empty: Workspace, trained_folder: Path) -> Workspace:
    """The app's workspace, with the digits and two runs."""
    shutil.copytree(trained_folder, empty.root)
    return empty
