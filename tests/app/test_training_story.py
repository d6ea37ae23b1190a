"""A training from the page, in a real browser: watched, refreshed, killed, resumed, stopped."""

from __future__ import annotations

import os
import signal

from playwright.sync_api import Page, expect

from crlc.config import ImportOptions
from crlc.workspace.runs import Runs
from tests.app.conftest import RunningApp

POINTS = "document.querySelectorAll('.js-plotly-plot')[0]?.data?.[0]?.x?.length ?? 0"


def heading(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", name=text, exact=True)).to_be_visible(timeout=60_000)


def test_a_training_survives_refresh_and_kill(page: Page, app: RunningApp):
    app.workspace.import_dataset("digits", options=ImportOptions(limit=300))
    page.goto(f"{app.url}/train")
    page.get_by_text("Advanced settings").click()
    page.get_by_label("Epochs", exact=True).fill("2000")
    page.get_by_label("Epochs", exact=True).press("Tab")
    expect(page.get_by_text("crlc train digits --clusters 10 --preset quick --epochs 2000")).to_be_visible()
    page.get_by_role("button", name="Start training").click()
    heading(page, "Training")
    page.wait_for_function(f"{POINTS} > 0")
    seen = page.evaluate(POINTS)
    page.wait_for_function(f"{POINTS} > {seen}")  # the curve moves, and nobody touched the page
    (run_id,) = Runs(app.workspace).ids()
    assert page.url.endswith(f"/train?dataset=digits&run={run_id}")

    page.reload()
    heading(page, "Training")
    page.wait_for_function(f"{POINTS} > {seen}")
    run = Runs(app.workspace).open(run_id)
    os.kill(run.status()["pid"], signal.SIGKILL)
    heading(page, "Interrupted")
    expect(page.get_by_role("alert").first).to_contain_text("Interrupted: its process is gone. It can be resumed.")

    page.get_by_role("button", name="Resume").click()
    heading(page, "Training")
    page.get_by_role("button", name="Stop", exact=True).click()
    heading(page, "Stopped")
    assert run.status()["state"] == "stopped"
    assert page.get_by_text("Traceback").count() == 0
