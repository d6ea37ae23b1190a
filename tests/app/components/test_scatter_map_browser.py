"""The map in a real browser, without a server: the script that the Explore page and the exported page share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.export.scatter_map import read_map_script, read_map_style

pytestmark = pytest.mark.browser

PAGE = f"""<style>{read_map_style()}</style><div id="host" style="width: 600px; height: 500px"></div>
<script type="module">{read_map_script()}
Object.assign(window, {{ PointMap }});
</script>"""
SHOW = """data => {
  const map = (window.map ??= new PointMap(document.querySelector("#host")));
  const entries = [0, 1].map(value => ({ value, text: `cluster ${value}`, count: 2, colour: "#336699" }));
  map.configure({ dataset: "d", layout: "l", scale: { kind: "categories", entries }, hidden: [], ...data }, () => {});
  map.show(new Float32Array([-1, -1, 1, 1, -0.5, 0.5, 0.5, -0.5]), new Uint32Array([1, 2, 3, 4]),
    new Uint16Array([0, 1, 0, 1]));
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 640, "height": 540})
    page.set_content(PAGE)
    page.wait_for_function("Boolean(window.PointMap)")
    yield page
    page.close()


def test_map_pans_to_a_new_marker_and_shows_its_text(page: Page):
    page.evaluate(SHOW, {"marker": {"x": 0.25, "y": -0.5, "text": "<b>my image</b>"}})
    marker = page.locator(".marker")
    expect(marker).to_have_text("<b>my image</b>")
    canvas = page.locator("canvas").first.bounding_box()
    at = marker.evaluate("one => [one.getBoundingClientRect().x, one.getBoundingClientRect().y]")
    assert at == pytest.approx([canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2], abs=1)
    page.evaluate(SHOW, {"marker": None})
    expect(marker).to_be_hidden()
