"""A training from the page, in a real browser: watched, refreshed, killed, resumed, found again, stopped."""

from __future__ import annotations

import os
import signal

from playwright.sync_api import Browser, Page, expect

from crlc.config import ImportOptions
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.conftest import ARTIFACTS, end_app, start_app

POINTS = "document.querySelectorAll('.js-plotly-plot')[0]?.data?.[0]?.x?.length ?? 0"


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", name=text, exact=True)).to_be_visible(timeout=60_000)


def test_a_training_survives_refresh_kill_and_the_end_of_the_app(browser: Browser, workspace: Workspace):
    workspace.import_dataset("digits", options=ImportOptions(limit=130))  # one step is an epoch
    process, url = start_app(workspace)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(30_000)
    page.goto(f"{url}/train")
    page.get_by_text("Advanced settings").click()
    page.get_by_label("Epochs", exact=True).fill("2000")
    page.get_by_label("Epochs", exact=True).press("Tab")
    expect(page.get_by_text("crlc train digits --clusters 10 --preset quick --epochs 2000")).to_be_visible()
    page.get_by_role("button", name="Start training").click()
    heading(page, "Training")
    page.wait_for_function(f"{POINTS} > 0")
    seen = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {seen}")  # the curve moves, and nobody touched the page
    (run_id,) = Runs(workspace).ids()
    assert page.url.endswith(f"/train?dataset=digits&run={run_id}")

    page.reload()
    heading(page, "Training")
    page.wait_for_function(f"{POINTS} > {seen}")
    run = Runs(workspace).open(run_id)
    os.kill(run.status()["pid"], signal.SIGKILL)
    heading(page, "Interrupted")
    expect(page.get_by_role("alert").first).to_contain_text("Interrupted: its process is gone. It can be resumed.")

    page.get_by_role("button", name="Resume").click()
    heading(page, "Training")
    said = end_app(process)
    assert said.startswith(
        f"A training goes on without the app: {run_id}. The app finds it again when it is next started"
    )

    process, url = start_app(workspace)
    page.goto(f"{url}/train")
    heading(page, "Training")
    page.get_by_role("button", name="Stop", exact=True).click()
    heading(page, "Stopped")
    assert run.status()["state"] == "stopped"
    assert page.get_by_text("Traceback").count() == 0
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "train.png")
    page.close()
    assert end_app(process) == "No training is running.\n"
