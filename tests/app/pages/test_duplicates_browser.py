"""The Duplicates page in a browser: keys decide, decisions are on disk, undo goes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.annotations.store import AnnotationStore
from tests.app.conftest import RunningApp
from tests.fixtures.accessibility import find_violations
from tests.fixtures.browser import button, open_page
from tests.fixtures.duplicates import save_duplicates

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_keys_decide_about_groups(page: Page, app: RunningApp, tmp_path: Path):
    save_duplicates(tmp_path / "set")
    dataset, _ = app.workspace.import_dataset(str(tmp_path / "set"))

    def read_excluded() -> list[int]:
        with AnnotationStore(dataset) as annotations:
            return annotations.refresh().get_excluded_ids().tolist()

    page.goto(f"{app.url.rstrip('/')}/?dataset=set")
    open_page(page, "Duplicates")
    desk, tiles = page.locator(".desk"), page.locator(".desk .tile")
    expect(tiles).to_have_count(3)
    assert find_violations(page) == []
    page.keyboard.press("2")
    expect(page.get_by_text("Group 2 of 2")).to_be_visible()
    page.keyboard.press("a")
    expect(desk).to_have_attribute("data-decided", "2")
    expect(desk).to_have_attribute("data-pending", "0")
    assert len(read_excluded()) == 2
    page.keyboard.press("z")
    page.keyboard.press("z")
    expect(desk).to_have_attribute("data-pending", "0")
    expect(desk).to_have_attribute("data-decided", "0")
    expect(page.get_by_text("Group 1 of 2")).to_be_visible()
    assert read_excluded() == []
    tiles.nth(1).click()  # keeps it too
    expect(tiles.nth(1)).to_have_attribute("aria-pressed", "true")
    page.locator(".desk .main").click()
    expect(desk).to_have_attribute("data-decided", "1")
    expect(desk).to_have_attribute("data-pending", "0")
    assert len(read_excluded()) == 1
    button(page, "exclude-all-duplicates").click()
    expect(desk).to_have_attribute("data-decided", "2")
    page.reload()
    expect(page.get_by_text("All groups are decided")).to_be_visible()
    assert len(read_excluded()) == 3
