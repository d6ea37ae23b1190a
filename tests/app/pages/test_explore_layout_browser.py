"""Layout of the Explore page in a real browser: nothing covers its controls, and the map keeps its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import RunningApp
from tests.fixtures.browser import button, by_key
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IS_UNCOVERED = """element => {
  const { left, top, width, height } = element.getBoundingClientRect();
  const found = document.elementFromPoint(left + width / 2, top + height / 2);
  return Boolean(found) && (element.contains(found) || found.contains(element) || found.shadowRoot !== null);
}"""
MIN_SEARCH_PIXELS = 300


@pytest.fixture
def explore(page: Page, app: RunningApp, tmp_path: Path) -> Page:
    """Open the Explore page with a run of twelve images."""
    run = write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    page.goto(f"{app.url}/explore?run={run.id}")
    expect(page.locator(".tile")).to_have_count(12)
    return page


def require_uncovered_controls(page: Page) -> None:
    heading = page.get_by_role("heading", name="Explore", exact=True, level=1)
    method = by_key(page, "explore-method").locator("button:visible").first
    for control in (heading, method, button(page, "explore-filters"), button(page, "explore-columns")):
        assert control.evaluate(IS_UNCOVERED), control


def test_controls_are_visible_without_the_sidebar(explore: Page):
    require_uncovered_controls(explore)
    explore.get_by_test_id("stSidebar").hover()
    explore.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    expect(explore.get_by_test_id("stExpandSidebarButton")).to_be_visible()
    require_uncovered_controls(explore)


def test_controls_are_visible_in_a_narrow_window(explore: Page):
    explore.set_viewport_size({"width": 768, "height": 1024})
    expect(explore.get_by_test_id("stExpandSidebarButton")).to_be_visible()
    require_uncovered_controls(explore)
    assert explore.get_by_role("combobox", name="Search images").bounding_box()["width"] > MIN_SEARCH_PIXELS


def test_map_keeps_its_zoom_when_the_columns_appear(explore: Page):
    frame = explore.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", "12")
    before = frame.get_attribute("data-view")
    frame.press("+")
    expect(frame).not_to_have_attribute("data-view", before)
    frame.evaluate("element => { element.isTheSame = true; }")
    width = frame.bounding_box()["width"]
    for is_shown in (True, False):
        button(explore, "explore-columns").click()
        expect(by_key(explore, "column-side")).to_have_count(int(is_shown))
        assert frame.evaluate("element => element.isTheSame === true")
    assert float(frame.get_attribute("data-view").split()[2]) > float(before.split()[2])
    assert frame.bounding_box()["width"] == pytest.approx(width, abs=1)


def test_choice_of_a_column_stays_in_the_row_of_the_controls(explore: Page):
    map_top = explore.locator(".map").first.bounding_box()["y"]
    by_key(explore, "explore-by").get_by_text("Column", exact=True).click()
    expect(by_key(explore, "explore-by-column")).to_be_visible()
    expect(explore.locator(".ramp").first).to_be_visible()
    assert explore.locator(".map").first.bounding_box()["y"] == map_top
