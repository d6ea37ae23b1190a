"""Fixtures for tests of the app: a server process, a browser, and workspaces for pages without a browser."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from app.background.commands import close_command_runner
from crlc.cli.main import main
from crlc.jobs.shared_queue import close_queues
from crlc.workspace import Workspace
from crlc.workspace.example import decline_example
from tests.conftest import ROOT

_log = logging.getLogger(__name__)

ARTIFACTS = ROOT / "tests" / "artifacts"
WAIT_MS = 60_000
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
    """A server process and its workspace."""

    url: str
    workspace: Workspace
    pid: int


def start_app(
    workspace: Workspace, *options: str, example: bool = False, module: str = "app"
) -> tuple[subprocess.Popen[str], str]:
    """Start the real server as a process, by default without the example; `end_app` stops it.

    Returns:
        The process and its URL.
    """
    if not example:
        decline_example(workspace)
    command = [sys.executable, "-m", module, "--no-browser", "--workspace", str(workspace.root), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("CRLC Studio is at http://"), line
    return process, line.split()[4]


def end_app(process: subprocess.Popen[str]) -> str:
    """Stop the server, and return what it printed after its first line."""
    process.terminate()
    rest = process.stdout.read()
    assert process.wait(60) in (0, -15)
    process.stdout.close()
    return rest


def find_chromium() -> str | None:
    """Return the path of Chromium or Chrome; `None` if neither is installed."""
    return next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)


def require_chromium() -> str:
    """Return the path of the browser. Without one, skip the test, or fail in CI, which must install one."""
    executable = find_chromium()
    if executable is None and os.environ.get("CI"):
        pytest.fail("no Chromium on this machine: CI must install one")
    if executable is None:
        pytest.skip("no Chromium or Chrome on this computer; install one to run the browser tests")
    return executable


@pytest.fixture
def app_module() -> str:
    """Return the module that starts the server; test modules can override this fixture."""
    return "app"


@pytest.fixture
def app(tmp_path: Path, app_module: str) -> Iterator[RunningApp]:
    """Run the real server with an empty workspace."""
    workspace = Workspace(tmp_path / "workspace")
    process, url = start_app(workspace, module=app_module)
    yield RunningApp(url, workspace, process.pid)
    end_app(process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Launch Chromium, with timeouts of a minute for busy computers."""
    executable = require_chromium()
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, app: RunningApp, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Open the app in the browser, log its errors for the report of a failure, and save a screenshot at the end."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.on("pageerror", lambda error: _log.error("Error in the page: %s", error))
    page.on("crash", lambda: _log.error("The page has crashed."))
    page.set_default_timeout(WAIT_MS)
    page.goto(app.url)
    yield page
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{request.node.name}.png")
    page.close()


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace folder with 200 digits and two tiny finished runs; tests must not change it."""
    root = tmp_path_factory.mktemp("trained") / "workspace"
    assert main(["import", "digits", "--limit", "200", "--workspace", str(root)]) == 0
    for seed in ("1", "2"):
        assert main(["train", "digits", "--epochs", "2", "--seed", seed, "--workspace", str(root)]) == 0
    return root


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """Set an empty workspace as that of the app."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(tmp_path / "workspace"))
    yield Workspace()
    close_command_runner()
    close_queues()


@pytest.fixture
def trained(empty: Workspace, trained_folder: Path) -> Workspace:
    """Return the workspace of the app, with the digits and two runs."""
    shutil.copytree(trained_folder, empty.root)
    return empty
