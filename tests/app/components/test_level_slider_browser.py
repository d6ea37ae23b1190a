"""Slider for the number of clusters in a real browser: it covers nothing of the map that previews its levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import RunningApp
from tests.fixtures.browser import by_key
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_level_slider_is_above_the_map_that_previews_its_levels(app: RunningApp, page: Page, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    page.goto(f"{app.url}/explore?dataset=set&run=tiny-run")
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "12")
    button = by_key(page, "cluster-levels").locator("button:visible").first
    button.click()
    slider = page.get_by_role("slider", name="Number of clusters")
    expect(slider).to_be_visible()
    row, stage = by_key(page, "level-row").bounding_box(), page.locator(".map").first.bounding_box()
    assert row["y"] + row["height"] <= stage["y"] + 1
    slider.press("ArrowLeft")
    expect(page.locator(".chip")).to_have_text("preview of 2 clusters")
    expect(page.locator(".legend .entry")).to_have_count(2)
    button.click()
    expect(slider).to_have_count(0)
    expect(page.locator(".chip")).to_have_text("preview of 2 clusters")  # hiding the slider keeps the preview
