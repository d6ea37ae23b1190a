"""A training run in a real browser: followed, stopped, killed, resumed, followed after a restart of the app, finished.

The training process is paused during slow checks, because a fast computer would finish the training meanwhile.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.data.options import ImportOptions
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.app.conftest import ARTIFACTS, end_app, start_app
from tests.fixtures.browser import POINTS, button, by_key, fill, open_page

EPOCHS = 120
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def expect_heading(page: Page, text: str, seconds: float = 60) -> None:
    expect(page.get_by_role("heading", name=text, exact=True)).to_be_visible(timeout=1000 * seconds)


def expect_text(page: Page, text: str) -> None:
    expect(page.get_by_text(text)).to_be_visible(timeout=60_000)


def open_new_page(browser: Browser, address: str) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(60_000)
    page.goto(address)
    return page


@contextmanager
def paused(run: RunFolder) -> Iterator[None]:
    """Pause the training process."""
    pid = run.read_status().pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def start_training(page: Page, epochs: int) -> None:
    by_key(page, "advanced-settings").locator("summary").click()
    fill(page, "train-set-epochs", epochs)
    expect_text(page, f"crlc train digits --clusters 10 --preset quick --epochs {epochs}")
    button(page, "start-training").click()
    expect_heading(page, "Training")


def end_by_ctrl_c(process: subprocess.Popen[str]) -> str:
    """Stop the server with Ctrl-C, and return what it printed."""
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 0
    process.stdout.close()
    return rest


@pytest.fixture
def servers(workspace: Workspace) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list for started servers; they and active training processes are killed at the end of the test."""
    servers: list[subprocess.Popen[str]] = []
    yield servers
    for process in servers:
        process.kill()
    for run_id in RunStore(workspace).list_ids():
        status = RunStore(workspace).open(run_id).read_status()
        if status.state.is_active:
            os.kill(status.pid, signal.SIGKILL)


def check_curve_after_refresh(page: Page, run: RunFolder) -> None:
    """Check that the curve grows without interaction, before and after a refresh."""
    count = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {count}")
    with paused(run):
        page.reload()
        expect_heading(page, "Training")
        page.wait_for_function(f"{POINTS} > {count}")
        count = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {count}")


def check_clusters_during_training(page: Page, run: RunFolder) -> None:
    """Check that the clusters can be opened during training, and are marked as unfinished."""
    browse = button(page, "ways-clusters")
    expect(browse).to_be_enabled(timeout=60_000)
    with paused(run):
        browse.click()
        expect(page.get_by_test_id("stMain").get_by_text("hourglass_top").first).to_be_visible()
        open_page(page, "Train")
        expect_heading(page, "Training")


def stop_in_second_tab(browser: Browser, url: str, run: RunFolder) -> None:
    with paused(run):
        other = open_new_page(browser, f"{url}/train")  # with its own session
        expect_heading(other, "Training")
        other.wait_for_function(f"{POINTS} > 0")
    button(other, "live-stop").click()
    expect_heading(other, "Stopped")
    other.close()


def kill_training(page: Page, run: RunFolder) -> None:
    os.kill(run.read_status().pid, signal.SIGKILL)
    expect_heading(page, "Interrupted")
    expect(page.get_by_role("alert")).to_contain_text("process is gone")


def resume_training(page: Page) -> None:
    button(page, "live-resume").click()
    expect_heading(page, "Training")


def test_training_survives_refresh_kill_and_restart_of_the_app(
    browser: Browser, workspace: Workspace, servers: list[subprocess.Popen[str]]
):
    workspace.import_dataset("digits", options=ImportOptions(limit=60))  # one step is an epoch
    process, url = start_app(workspace)
    servers.append(process)
    page = open_new_page(browser, f"{url}/train")
    start_training(page, EPOCHS)
    page.wait_for_function(f"{POINTS} > 0")
    (run_id,) = RunStore(workspace).list_ids()
    run = RunStore(workspace).open(run_id)
    assert page.url.endswith(f"/train?dataset=digits&run={run_id}")
    check_curve_after_refresh(page, run)
    check_clusters_during_training(page, run)
    stop_in_second_tab(browser, url, run)
    expect_heading(page, "Stopped")
    stopped_at = run.read_status().step
    resume_training(page)
    kill_training(page, run)
    resume_training(page)
    with paused(run):
        assert f"without the app: {run_id}." in end_by_ctrl_c(process)
        process, url = start_app(workspace)
        servers.append(process)
        page.goto(f"{url}/train")
        expect_heading(page, "Training")
        assert stopped_at <= run.read_status().step < EPOCHS
    expect_heading(page, "Finished", 180)  # a busy computer is slow
    expect_text(page, f"Epoch {EPOCHS} of {EPOCHS}")
    epochs = [record["epoch"] for record in run.metrics_log.read() if record["kind"] == "epoch"]
    assert epochs == list(range(1, EPOCHS + 1))  # each epoch is logged once
    # The final state is on disk a moment before the process ends; then the page offers the next training.
    expect(page.get_by_role("button", name="Start training")).to_be_visible(timeout=60_000)
    assert page.get_by_text("Traceback").count() == 0
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "train.png")
    page.close()
    assert end_app(process) == "No training is running.\n"
