"""Every page with the example, light and dark: it shows its main content, and a screenshot is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from app.navigation import PAGE_LINKS, PAGES
from crlc.workspace import Workspace
from tests.app.conftest import ARTIFACTS, RunningApp, end_app, start_app
from tests.fixtures.accessibility import find_violations
from tests.fixtures.browser import button, by_key, cluster_card, open_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ALL_IMAGES_LOADED = """() => {
  const shadows = [...document.querySelectorAll('*')].map(one => one.shadowRoot).filter(Boolean);
  const images = [document, ...shadows].flatMap(root => [...root.querySelectorAll('img')]);
  const visible = images.filter(image => image.checkVisibility() && image.loading !== 'lazy');
  return visible.every(image => image.complete && image.naturalWidth);
}"""

SIZES = ((1280, 720), (1440, 900), (1920, 1080))
MAX_REST_PIXELS = 90
"""Height of the selection bar below map and gallery."""

WITHOUT_CUT_LABELS = ("start", "train", "explore", "clusters", "label", "runs", "export")
NOTHING_SCROLLS_SIDEWAYS = """() => [document.documentElement, document.querySelector("[data-testid='stMain']")]
  .every((one) => one.scrollWidth <= one.clientWidth)"""
CUT_LABELS = """() => [
  ...document.querySelectorAll("[data-testid='stMain'] :is(button, label) *"),
  ...[...document.querySelectorAll("[data-testid='stMain'] *")].flatMap(
    (host) => [...(host.shadowRoot?.querySelectorAll("section header *") ?? [])]),
].filter((one) => {
  const isCut = getComputedStyle(one).textOverflow === 'ellipsis' && one.scrollWidth > one.clientWidth + 1;
  return isCut && one.checkVisibility();
}).map((one) => one.textContent)"""

MAIN_CONTENT: dict[str, Callable[[Page], Locator]] = {
    "start": lambda page: by_key(page, "dataset-digits").get_by_text("1,797 images · 16 px").first,
    "train": lambda page: page.locator(".js-plotly-plot .lines").first,
    "explore": lambda page: page.locator(".map[data-drawn='1797']").first,
    "clusters": lambda page: page.get_by_text("cluster 8", exact=True).first,
    "label": lambda page: page.locator(".frame img.large"),
    "duplicates": lambda page: page.locator(".desk .tile").first,
    "runs": lambda page: page.locator(".js-plotly-plot .lines").first,
    "export": lambda page: page.get_by_text("12 of 1,797 rows"),
}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of an app at its first start."""
    process, url = start_app(Workspace(tmp_path_factory.mktemp("example") / "workspace"), example=True)
    yield url
    end_app(process)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_its_main_content(browser: Browser, example: str, scheme: str):
    assert {entry.name for entry in PAGES} == set(MAIN_CONTENT)
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    page.goto(example)
    expect(MAIN_CONTENT["start"](page)).to_be_visible()  # the example is installed
    folder = ARTIFACTS / "screens"
    folder.mkdir(parents=True, exist_ok=True)
    for entry in PAGES:
        open_page(page, entry.title)
        expect(MAIN_CONTENT[entry.name](page)).to_be_visible()
        expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
        page.wait_for_function(ALL_IMAGES_LOADED)
        assert page.get_by_test_id("stException").count() == 0
        page.screenshot(path=folder / f"{entry.name}_{scheme}.png")
        assert find_violations(page) == [], entry.name
        if scheme == "light":
            check_sizes(page, entry.name)
    check_further_screens(page)
    page.close()


def check_sizes(page: Page, name: str) -> None:
    """Check that a page fits into windows of other sizes; the same page is resized, which is faster than loading it."""
    before = page.viewport_size
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(NOTHING_SCROLLS_SIDEWAYS)
        page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")
        page.screenshot(path=ARTIFACTS / "screens" / f"{name}_{width}.png")
        if name == "explore":
            for part in (page.locator(".st-key-explore-map"), page.locator(".st-key-scroll-explore")):
                box = part.bounding_box()
                assert height - MAX_REST_PIXELS < box["y"] + box["height"] < height, (name, width, height, box)
                assert box["height"] > height / 2, (name, width, height, box)
        if name in WITHOUT_CUT_LABELS:
            assert page.evaluate(CUT_LABELS) == [], (name, width)
    page.set_viewport_size(before)


def check_further_screens(page: Page) -> None:
    """Check the accessibility of screens that a page shows only after a click."""
    open_page(page, "Clusters")
    cluster_card(page, 3).locator(".tile").first.click()
    expect(page.get_by_role("dialog").locator(".tile").first).to_be_visible()
    assert find_violations(page) == [], "image dialog"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert find_violations(page) == [], "keyboard shortcuts"
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("tab").nth(1).click()
    expect(page.locator("[class*='st-key-dismiss-']").first).to_be_visible()
    assert find_violations(page) == [], "suggestions"
    page.get_by_role("tab").nth(0).click()
    cluster_card(page, 3).locator(".open").click()
    button(page, "preview-split").click()
    expect(by_key(page, "split-preview").locator(".tile").first).to_be_visible()
    assert find_violations(page) == [], "split preview"


def test_server_serves_any_page_as_its_first_request(browser: Browser, app: RunningApp):
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{app.url.rstrip('/')}/export")  # before any page has called st.navigation in this server
    expect(by_key(page, PAGE_LINKS).get_by_role("link")).to_have_count(len(PAGES))
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.get_by_role("heading", name="Export").first).to_be_visible()
    page.close()
