"""A training from the page, in a real browser: watched, refreshed, stopped, killed, resumed, found again, finished.

Whoever looks takes time in which a quick computer trains on, so the training rests meanwhile.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.config import ImportOptions
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.conftest import ARTIFACTS, end_app, start_app

EPOCHS = 120
POINTS = "document.querySelectorAll('.js-plotly-plot')[0]?.data?.[0]?.x?.length ?? 0"


def heading(page: Page, text: str, seconds: float = 60) -> None:
    expect(page.get_by_role("heading", name=text, exact=True)).to_be_visible(timeout=1000 * seconds)


def settled(page: Page, text: str) -> None:
    expect(page.get_by_text(text)).to_be_visible(timeout=60_000)


def new_page(browser: Browser, address: str) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    page.goto(address)
    return page


@contextmanager
def resting(run: RunFolder) -> Iterator[None]:
    pid = run.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def start_from_page(page: Page, epochs: int) -> None:
    page.get_by_text("Advanced settings").click()
    page.get_by_label("Epochs", exact=True).fill(str(epochs))
    page.get_by_label("Epochs", exact=True).press("Tab")
    settled(page, f"crlc train digits --clusters 10 --preset quick --epochs {epochs}")
    page.get_by_role("button", name="Start training").click()
    heading(page, "Training")


def end_by_ctrl_c(process: subprocess.Popen[str]) -> str:
    """What it printed."""
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(20) == 0
    process.stdout.close()
    return rest


@pytest.fixture
def leaving_nothing_behind(workspace: Workspace) -> Iterator[list[subprocess.Popen[str]]]:
    """Servers to be ended, with the training, also when a test fails."""
    servers: list[subprocess.Popen[str]] = []
    yield servers
    for process in servers:
        process.kill()
    for run_id in Runs(workspace).ids():
        status = Runs(workspace).open(run_id).status()
        if status["state"] in ("queued", "running", "stopping"):
            os.kill(status["pid"], signal.SIGKILL)


def watched_through_a_refresh(page: Page, run: RunFolder) -> None:
    """The curve moves, and nobody touched the page; after a refresh as before."""
    seen = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {seen}")
    with resting(run):
        page.reload()
        heading(page, "Training")
        page.wait_for_function(f"{POINTS} > {seen}")
        seen = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {seen}")


def looked_at_on_its_way(page: Page, run: RunFolder) -> None:
    """The clusters there are can be looked at already, marked as such."""
    button = page.get_by_role("button", name="Look through them so far")
    expect(button).to_be_enabled(timeout=60_000)
    with resting(run):
        button.click()
        settled(page, "Not finished: clusters after epoch")
        page.get_by_role("link", name="Train").click()
        heading(page, "Training")


def stopped_from_a_second_tab(browser: Browser, url: str, run: RunFolder) -> None:
    with resting(run):
        other = new_page(browser, f"{url}/train")  # a session of its own
        heading(other, "Training")
        other.wait_for_function(f"{POINTS} > 0")
    other.get_by_role("button", name="Stop", exact=True).click()
    heading(other, "Stopped")
    other.close()


def killed(page: Page, run: RunFolder) -> None:
    os.kill(run.status()["pid"], signal.SIGKILL)
    heading(page, "Interrupted")
    settled(page, "Interrupted: its process is gone. It can be resumed.")


def resumed(page: Page) -> None:
    page.get_by_role("button", name="Resume").click()
    heading(page, "Training")


def test_a_training_survives_refresh_kill_and_the_end_of_the_app(
    browser: Browser, workspace: Workspace, leaving_nothing_behind: list[subprocess.Popen[str]]
):
    workspace.import_dataset("digits", options=ImportOptions(limit=60))  # one step is an epoch
    process, url = start_app(workspace)
    leaving_nothing_behind.append(process)
    page = new_page(browser, f"{url}/train")
    start_from_page(page, EPOCHS)
    page.wait_for_function(f"{POINTS} > 0")
    (run_id,) = Runs(workspace).ids()
    run = Runs(workspace).open(run_id)
    assert page.url.endswith(f"/train?dataset=digits&run={run_id}")
    watched_through_a_refresh(page, run)
    looked_at_on_its_way(page, run)
    stopped_from_a_second_tab(browser, url, run)
    heading(page, "Stopped")
    stopped_at = run.status()["step"]
    resumed(page)
    killed(page, run)
    resumed(page)
    with resting(run):
        assert end_by_ctrl_c(process).startswith(
            f"A training goes on without the app: {run_id}. The app finds it again when it is next started"
        )
        process, url = start_app(workspace)
        leaving_nothing_behind.append(process)
        page.goto(f"{url}/train")
        heading(page, "Training")
        assert stopped_at <= run.status()["step"] < EPOCHS
    heading(page, "Finished", 180)  # a busy computer is no failure
    settled(page, f"Epoch {EPOCHS} of {EPOCHS}")
    epochs = [record["epoch"] for record in run.metrics() if record["kind"] == "epoch"]
    assert epochs == list(range(1, EPOCHS + 1))  # each is told once
    # Its last word is on disk a moment before its process is gone; then the page offers the next training.
    expect(page.get_by_role("button", name="Start training")).to_be_visible(timeout=60_000)
    assert page.get_by_text("Traceback").count() == 0
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "train.png")
    page.close()
    assert end_app(process) == "No training is running.\n"
