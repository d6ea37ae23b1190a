"""Navigation between pages in a real browser: Back, links and the title of the tab."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.navigation import PAGE_LINKS
from tests.app.conftest import RunningApp
from tests.fixtures.app_pages import run_ids
from tests.fixtures.browser import by_key, open_page

pytestmark = pytest.mark.browser


def expect_page(page: Page, title: str, run: str) -> None:
    """Wait until the browser shows a page of a run, in its heading, its tab and its URL."""
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
    expect(page).to_have_title(re.compile(f"^{title} "))
    expect(page).to_have_url(re.compile(rf"/{title.lower()}\?dataset=digits&run={run}$"))
    # Streamlit loses a step in the history that is taken while the script of the page before it still runs.
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def test_back_restores_page_and_run_and_a_missing_run_is_reported(page: Page, app: RunningApp, trained_folder: Path):
    shutil.copytree(trained_folder, app.workspace.root, dirs_exist_ok=True)
    first, newest = run_ids(app.workspace)
    page.goto(f"{app.url}/runs")
    expect_page(page, "Runs", newest)
    is_cut = "(input, name) => { input.value = name; return input.scrollWidth > input.clientWidth; }"
    name = "19 Nov 06:44 · with labels · 6 clusters"
    assert not by_key(page, "selection-run").locator("input").evaluate(is_cut, name)
    open_page(page, "Export")
    expect_page(page, "Export", newest)
    by_key(page, "selection-run").get_by_role("combobox").click()
    page.get_by_role("option").nth(1).click()  # the newest run is first
    expect_page(page, "Export", first)
    open_page(page, "Train")
    expect_page(page, "Train", first)
    # One step per page and per selected run.
    page.go_back()
    expect_page(page, "Export", first)
    page.go_back()
    expect_page(page, "Export", newest)
    page.go_back()
    expect_page(page, "Runs", newest)
    expect(page.get_by_role("heading", name="Compare two runs")).to_be_visible()  # the end of the page
    page.go_forward()
    expect_page(page, "Export", newest)
    page.reload()
    expect_page(page, "Export", newest)
    # A link to a run that was deleted says so, until another page or run is opened.
    page.goto(f"{app.url}/export?dataset=digits&run=deleted-run")
    warning = page.get_by_role("status").filter(has_text="deleted-run")
    expect(warning).to_be_visible()
    expect_page(page, "Export", newest)
    by_key(page, PAGE_LINKS).get_by_role("link", name="Runs").click()
    expect_page(page, "Runs", newest)
    expect(warning).to_be_hidden()
