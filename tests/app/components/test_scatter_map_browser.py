"""The map in a real browser, without a server: the script that the Explore page and the exported page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.export.scatter_map import read_map_script, read_map_style

pytestmark = pytest.mark.browser

PAGE = f"""<style>:root {{ --st-background-color: #fff; --st-text-color: #222; --st-primary-color: #369 }}
{read_map_style()}</style><div id="host" style="width: 600px; height: 500px"></div>
<script type="module">{read_map_script()}
class TestMap extends PointMap {{
  async loadImages(ids, receive) {{
    (window.requests ??= []).push(ids);
    for (const id of ids) receive(id, Object.assign(document.createElement("canvas"), {{ width: 40, height: 20 }}));
  }}
}}
Object.assign(window, {{
  TestMap, NearestPoint, placeLabels, chooseCellSide, chooseThumbnails, findPeaks, traceLevel, computeContours,
}});
</script>"""
SHOW = """data => {
  const map = (window.map ??= new TestMap(document.querySelector("#host")));
  window.sent ??= [];
  const names = data.names ?? ["first", "second"];
  const entries = names.map((text, value) => ({ value, text, count: 2, colour: "#336699" }));
  const scale = { kind: "categories", entries };
  map.configure({ dataset: "d", layout: "l", scale, hidden: [], ...data }, (...event) => window.sent.push(event));
  window.arrays ??= [new Float32Array([-1, -1, 1, 1, -0.5, 0.5, 0.5, -0.5]), new Uint32Array([11, 12, 13, 14]),
    new Uint16Array([0, 1, 0, 0])];
  map.show(...window.arrays);
}"""


@pytest.fixture(scope="module")
def script(browser: Browser) -> Iterator[Page]:
    """Open a page with the script; the functions under test have no state."""
    page = browser.new_page(viewport={"width": 640, "height": 540})
    page.set_content(PAGE)
    page.wait_for_function("Boolean(window.TestMap)")
    yield page
    page.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 640, "height": 540})
    page.set_content(PAGE)
    page.wait_for_function("Boolean(window.TestMap)")
    yield page
    page.close()


# ---- geometry


def test_place_labels_keeps_larger_ones_and_never_overlaps(script: Page):
    def place(*anchors: tuple[float, float]) -> list[list[float] | None]:
        labels = [{"width": 100, "height": 20, "anchors": [anchor]} for anchor in anchors]
        return script.evaluate("labels => placeLabels(labels, 400, 300)", labels)

    # The second overlaps the first; the third is below both; the fourth is outside; the fifth is moved inside.
    anchors = [(100, 100), (150, 105), (150, 130), (500, 50), (10, 50)]
    assert place(*anchors) == [[50, 90], None, [100, 120], None, [0, 40]]
    assert place(*((2 * x, 2 * y) for x, y in anchors[:3])) == [[150, 190], None, [250, 250]]
    zoomed = place(*((x - 50, 5 * (y - 90)) for x, y in anchors[:3]))
    assert zoomed == [[0, 40], [50, 65], [50, 190]]  # there is room for all when zoomed in


def test_place_labels_uses_the_next_dense_place_and_limits_the_number(script: Page):
    label = {"width": 20, "height": 10, "anchors": [[-5, 20], [60, 40]]}
    assert script.evaluate("label => placeLabels([label], 100, 100)", label) == [[50, 35]]
    many = [{"width": 4, "height": 2, "anchors": [[10 * index + 5, 50]]} for index in range(9)]
    placed = script.evaluate("labels => placeLabels(labels, 100, 100)", many)
    assert [position is not None for position in placed] == [True] * 6 + [False] * 3


def test_find_peaks_returns_the_densest_place_of_the_visible_points(script: Page):
    # Value 0: three points around (0.51, 0.5), one far away; value 1: only the point that is not hidden counts.
    points = [0.5, 0.5, 0.51, 0.5, 0.52, 0.5, -0.9, -0.9, 0.2, 0.2, -0.2, -0.2]
    found = script.evaluate(
        """points => [...findPeaks(new Float32Array(points), new Uint16Array([0, 0, 0, 0, 1, 1]),
             new Uint8Array([1, 1, 1, 1, 1, 0]))].map(([value, place]) => [value, place.count, place.peaks])""",
        points,
    )
    (first, second) = sorted(found)
    assert first[:2] == [0, 4]
    assert first[2][0] == pytest.approx([0.51, 0.5], abs=1e-6)
    assert first[2][1] == pytest.approx([-0.9, -0.9], abs=1e-6)
    assert second[:2] == [1, 1]
    assert second[2] == [pytest.approx([0.2, 0.2], abs=1e-6)]


def test_trace_level_interpolates_and_keeps_high_corners_of_a_saddle_apart(script: Page):
    assert script.evaluate("traceLevel([0, 4, 0, 4], 2, 1)") == [0.25, 0, 0.25, 1]
    # High in the upper left and lower right, low in the middle: one line around each.
    lines = script.evaluate("traceLevel([4, 0, 0, 4], 2, 3)")
    found = {frozenset({tuple(line[:2]), tuple(line[2:])}) for line in (lines[:4], lines[4:])}
    assert found == {frozenset({(0.25, 0), (0, 0.25)}), frozenset({(1, 0.75), (0.75, 1)})}


def test_compute_contours_are_closed_lines_around_the_points(script: Page):
    lines = script.evaluate(
        """() => computeContours(new Float32Array([0.5, 0.5, 0.5, 0.5, -0.5, -0.5]), new Uint8Array([1, 1, 1]),
             [1, 0.5]).map(lines => [...lines])"""
    )
    for segments in lines:
        ends = Counter((segments[at], segments[at + 1]) for at in range(0, len(segments), 2))
        assert set(ends.values()) == {2}
    sides = [{segment > 0 for segment in segments[::2]} for segments in lines]
    assert sides == [{True, False}, {True}]  # all points; the denser half


@pytest.mark.parametrize(("scale", "side"), [(112, 0.5), (111, 1.0), (224, 0.25), (200, 0.5)])
def test_choose_cell_side_is_a_power_of_two_of_at_least_56_pixels(script: Page, scale: float, side: float):
    assert script.evaluate("scale => chooseCellSide(scale, 400, 300)", scale) == side


def test_choose_thumbnails_takes_one_per_cell_without_overlap(script: Page):
    points = [
        *(0.05, 0.05, 0.24, 0.26),  # cell (0, 0) of side 0.5: the second is nearer to the middle
        *(0.9, 0.75, 0.52, 0.3),  # cell (1, 1); cell (1, 0), which would overlap the one of cell (0, 0)
        *(-0.25, -0.25, -0.25, 0.75),  # hidden; outside the window
    ]
    choose = """([points, flags]) => chooseThumbnails(new NearestPoint(new Float32Array(points)), new Uint8Array(flags),
      [-0.5, -0.5, 1, 0.8], 0.5)"""
    assert script.evaluate(choose, [points, [1, 1, 1, 1, 0, 1]]) == [1, 2, 5]
    assert script.evaluate(choose, [points, [3, 1, 1, 1, 0, 1]]) == [0, 2, 3, 5]  # a selected one comes first
    assert script.evaluate(choose.replace("0.8]", "0.7]"), [points, [1, 1, 1, 1, 1, 1]]) == [1, 4]


# ---- the map


def wait_for_labels(page: Page, labels: list[str]) -> None:
    page.wait_for_function(
        "texts => JSON.stringify([...document.querySelectorAll('.label')]"
        ".filter(one => one.style.visibility === 'visible').map(one => one.textContent)) === JSON.stringify(texts)",
        arg=labels,
    )


def test_map_pans_to_a_new_marker_and_shows_its_text(page: Page):
    page.evaluate(SHOW, {"marker": {"x": 0.25, "y": -0.5, "text": "<b>my image</b>"}})
    marker = page.locator(".marker")
    expect(marker).to_have_text("<b>my image</b>")
    canvas = page.locator("canvas").first.bounding_box()
    at = marker.evaluate("one => [one.getBoundingClientRect().x, one.getBoundingClientRect().y]")
    assert at == pytest.approx([canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2], abs=1)
    page.evaluate(SHOW, {"marker": None})
    expect(marker).to_be_hidden()


def test_map_names_follow_renames_and_hidden_values_and_can_be_turned_off(page: Page):
    page.evaluate(SHOW, {})
    wait_for_labels(page, ["first", "second"])  # the larger first
    page.evaluate(SHOW, {"names": ["<i>renamed</i>", "second"]})
    wait_for_labels(page, ["<i>renamed</i>", "second"])
    page.evaluate(SHOW, {"hidden": [0]})
    wait_for_labels(page, ["second"])
    page.locator(".layers summary").click()
    page.locator(".layers input[name=names]").uncheck()
    expect(page.locator(".labels")).to_be_hidden()
    page.locator(".layers input[name=contours]").check()
    expect(page.locator(".map")).to_have_attribute("data-contours", "5")


def test_map_shows_images_when_zoomed_in_which_can_be_hovered_and_opened(page: Page):
    page.evaluate(SHOW, {"images": "data:,", "imageQuery": ""})
    frame, box = page.locator(".map"), page.locator("canvas").first.bounding_box()
    expect(frame).to_have_attribute("data-thumbnails", "0/0")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -1)
    page.evaluate("map.moveTo(-0.5, 0.5)")
    expect(frame).to_have_attribute("data-thumbnails", "1/1")
    assert page.evaluate("requests") == [[13]]
    # The thumbnail is wider than the reach of a point: hovering at its edge is enough.
    thumbnail = page.evaluate("map.layers.thumbnails.shown[0]")
    assert (thumbnail["wide"], thumbnail["high"]) == (thumbnail["side"], thumbnail["side"] / 2)
    assert thumbnail["side"] / 2 > 15
    at = (box["x"] + thumbnail["x"] + thumbnail["side"] / 2 - 2, box["y"] + thumbnail["y"])
    page.mouse.move(*at)
    expect(page.locator(".card")).to_be_visible()
    expect(page.locator(".ring").last).to_be_hidden()
    page.mouse.click(*at)
    assert page.evaluate("sent") == [["clicked", 13]]
    page.evaluate("map.showAll()")
    expect(frame).to_have_attribute("data-thumbnails", "0/0")
    page.evaluate("map.moveTo(-0.5, 0.5)")
    expect(frame).to_have_attribute("data-thumbnails", "1/1")
    assert len(page.evaluate("requests")) == 1  # the image is cached
