"""Every screen with the example in it, light and dark: kept as pictures, and none is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from app.pages import PAGES
from crlc.workspace import Workspace
from tests.app.conftest import ARTIFACTS, end_app, start_app

ALL_IMAGES_THERE = """() => {
  const shadows = [...document.querySelectorAll('*')].map(one => one.shadowRoot).filter(Boolean);
  const images = [document, ...shadows].flatMap(root => [...root.querySelectorAll('img')]);
  const seen = images.filter(image => image.checkVisibility() && image.loading !== 'lazy');
  return seen.every(image => image.complete && image.naturalWidth);
}"""

MAIN: dict[str, Callable[[Page], Locator]] = {
    "start": lambda page: page.get_by_text("1,797 images · 16 px · 10 classes known"),
    "train": lambda page: page.locator(".js-plotly-plot .lines").first,
    "explore": lambda page: page.locator(".map[data-drawn='1797']").first,
    "clusters": lambda page: page.get_by_text("cluster 8", exact=True).first,
    "label": lambda page: page.locator(".frame img.large"),
    "runs": lambda page: page.locator(".js-plotly-plot .lines").first,
    "export": lambda page: page.get_by_text("1,797 rows of which these are the first 12."),
}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as on a first start."""
    process, url = start_app(Workspace(tmp_path_factory.mktemp("example") / "workspace"), example=True)
    yield url
    end_app(process)


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_every_screen_shows_something(browser: Browser, example: str, colours: str):
    expect.set_options(timeout=60_000)  # a busy computer is no failure
    assert {entry.name for entry in PAGES} == set(MAIN)
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=colours)
    page.set_default_timeout(60_000)
    page.goto(example)
    expect(MAIN["start"](page)).to_be_visible()  # the example is in its place
    folder = ARTIFACTS / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    for entry in PAGES:
        page.get_by_test_id("stSidebarNav").get_by_role("link", name=entry.title).click()
        expect(page.get_by_role("heading", name=entry.title, exact=True, level=1)).to_be_visible()
        expect(MAIN[entry.name](page)).to_be_visible()
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        page.wait_for_function(ALL_IMAGES_THERE)
        assert page.get_by_test_id("stException").count() == 0
        page.screenshot(path=folder / f"{entry.name}_{colours}.png")
    page.close()
