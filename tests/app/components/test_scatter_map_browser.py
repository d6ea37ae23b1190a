"""The map in a real browser, without a server: the script that the Explore page and the exported page share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

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
  TestMap, NearestPoint, placeLabels, chooseCellSide, chooseThumbnails, findPeaks, findVisiblePlaces, traceLevel,
  computeContours,
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


def place(script: Page, anchors: list[list[tuple[float, float]]], images: list[dict[str, float]] | None = None) -> Any:
    """Place labels of 100 x 20 pixels in a window of 400 x 300 pixels."""
    labels = [{"width": 100, "height": 20, "anchors": own} for own in anchors]
    return script.evaluate("([labels, images]) => placeLabels(labels, 400, 300, images)", [labels, images or []])


def test_place_labels_moves_smaller_ones_by_a_height_and_never_overlaps(script: Page):
    # The second overlaps the first and has room below it; the third overlaps both; the fourth has no anchor in the
    # window; the fifth would stick out.
    anchors = [[(100, 100)], [(150, 105)], [(140, 116)], [], [(10, 50)]]
    assert place(script, anchors) == [[50, 90], [100, 118], None, None, [0, 40]]
    zoomed = place(script, [[(3 * (x - 50), 5 * (y - 90)) for x, y in own] for own in anchors[:3]])
    assert zoomed == [[100, 40], [250, 65], [220, 120]]  # there is room for all when zoomed in


def test_place_labels_tries_all_dense_places_before_it_moves_a_label(script: Page):
    assert place(script, [[(100, 100)], [(100, 100), (300, 200)]]) == [[50, 90], [250, 190]]
    assert place(script, [[(100, 100)], [(100, 100), (120, 95)]]) == [[50, 90], [50, 67]]


def test_place_labels_limits_the_number(script: Page):
    many = [{"width": 4, "height": 2, "anchors": [[10 * index + 5, 50]]} for index in range(9)]
    placed = script.evaluate("labels => placeLabels(labels, 100, 100)", many)
    assert [position is not None for position in placed] == [True] * 6 + [False] * 3


def test_place_labels_leaves_the_middle_of_images_free(script: Page):
    # The middle of the image is 70 pixels wide and high: the label leaves it by two of its heights with their gaps.
    assert place(script, [[(200, 150)]], [{"x": 200, "y": 150, "side": 100}]) == [[150, 150 + 2 * 23 - 10]]
    assert place(script, [[(200, 150)]], [{"x": 60, "y": 150, "side": 100}]) == [[150, 140]]


def test_place_labels_leaves_small_groups_of_points_free(script: Page):
    def place_beside(*groups: tuple[float, float, float, float]) -> Any:
        labels = [
            {"width": 100, "height": 20, "anchors": [(x, y)], "reach": (wide, high)} for x, y, wide, high in groups
        ]
        return script.evaluate("labels => placeLabels(labels, 400, 300)", labels)

    assert place_beside((200, 150, 30, 10)) == [
        [150, 150 - 10 - 5 - 3 - 20]
    ]  # above the points, their radius and a gap
    assert place_beside((200, 150, 60, 60)) == [[150, 140]]  # hides a sixth of the points
    assert place_beside((200, 150, 0, 0)) == [[150, 122]]  # a single point
    assert place_beside((200, 12, 30, 10)) == [[150, 30]]  # there is no room above
    # Above the second group are the points of the first.
    assert place_beside((200, 150, 30, 10), (200, 180, 30, 10)) == [[150, 112], [150, 198]]


def test_find_peaks_returns_how_far_most_points_are_from_them(script: Page):
    points = [[0.3 + 0.01 * step, 0.02 * step] for step in range(-5, 6)]
    reach = script.evaluate(
        """points => findPeaks(new Float32Array(points.flat()), new Uint16Array(points.length),
             new Uint8Array(points.length).fill(1)).get(0).reach""",
        points,
    )
    assert reach == [pytest.approx(0.03, abs=0.011), pytest.approx(0.06, abs=0.021)]


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
    assert first[2] == [pytest.approx([0.51, 0.5], abs=1e-6)]  # a single point far away is no place for the name
    assert second[:2] == [1, 1]
    assert second[2] == [pytest.approx([0.2, 0.2], abs=1e-6)]


def test_find_peaks_prefers_the_mass_of_a_value_to_a_small_clump(script: Page):
    steps = [0.03 * step for step in range(-6, 7)]
    disc = [(x - 0.3, y) for x in steps for y in steps if math.hypot(x, y) <= 0.2]
    points = [number for point in [*disc, *[(0.4, 0.4)] * 12] for number in point]
    [(x, y)] = script.evaluate(
        """points => findPeaks(new Float32Array(points), new Uint16Array(points.length / 2),
             new Uint8Array(points.length / 2).fill(1)).get(0).peaks""",
        points,
    )
    assert math.hypot(x + 0.3, y) < 0.06


def test_find_visible_places_returns_the_densest_cell_of_each_frequent_value(script: Page):
    # In the window, cells are 0.125 wide. Value 0: two points in one cell, one in another, and many outside; value 1:
    # one point; value 2: hidden.
    points = [(0.01, 0.01), (0.11, 0.03), (0.9, 0.9), *[(-0.5, -0.5)] * 4, (0.6, 0.3), (0.7, 0.7)]
    found = script.evaluate(
        """points => [...findVisiblePlaces(new NearestPoint(new Float32Array(points.flat())),
             new Uint16Array([0, 0, 0, 0, 0, 0, 0, 1, 2]), new Uint8Array([1, 1, 1, 1, 1, 1, 1, 1, 0]),
             [0, 0, 1, 1])].map(([value, { count, place }]) => [value, count, place])""",
        points,
    )
    assert sorted(found) == [
        [0, 3, pytest.approx([0.06, 0.02], abs=1e-6)],
        [1, 1, pytest.approx([0.6, 0.3], abs=1e-6)],
    ]


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
      [-0.5, -0.5, 1, 0.8], 0.5, 30)"""
    assert script.evaluate(choose, [points, [1, 1, 1, 1, 0, 1]]) == [1, 2, 5]
    assert script.evaluate(choose, [points, [3, 1, 1, 1, 0, 1]]) == [0, 2, 3, 5]  # a selected one comes first
    assert script.evaluate(choose.replace("0.8]", "0.7]"), [points, [1, 1, 1, 1, 1, 1]]) == [1, 4]


@pytest.mark.parametrize(("more", "shown"), [(58, 2), (59, 0)])
def test_choose_thumbnails_shows_none_if_cells_have_too_many_points(script: Page, more: int, shown: int):
    # Two cells hold a point.
    chosen = script.evaluate(
        """points => chooseThumbnails(new NearestPoint(new Float32Array(points)),
             new Uint8Array(points.length / 2).fill(1), [0, 0, 1, 1], 0.5, 30)""",
        [0.25, 0.25, 0.75, 0.75, *[0.1, 0.1] * more],
    )
    assert len(chosen) == shown


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


def test_map_names_stay_when_zoomed_into_a_part_of_a_cluster(page: Page):
    page.evaluate(SHOW, {})
    wait_for_labels(page, ["first", "second"])
    for row in range(4):  # one of them at most is the densest place
        page.evaluate("row => map.moveTo(...window.arrays[0].slice(2 * row, 2 * row + 2))", row)
        wait_for_labels(page, ["second" if row == 1 else "first"])
    page.evaluate("map.moveTo(0.9, -0.9)")
    wait_for_labels(page, [])  # no point is in the window


def test_map_menu_follows_a_click_on_its_words_and_closes_with_a_press_outside(page: Page):
    page.evaluate(SHOW, {})
    page.locator(".layers summary").click()
    words = page.locator(".layers label", has_text="Contour lines").bounding_box()
    page.mouse.click(words["x"] + words["width"] - 20, words["y"] + words["height"] / 2)
    expect(page.locator(".layers input[name=contours]")).to_be_checked()
    expect(page.locator(".map")).to_have_attribute("data-contours", "5")
    expect(page.locator(".layers")).to_have_attribute("open", "")
    box = page.locator("canvas").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".layers")).not_to_have_attribute("open", "")


def test_map_shows_images_in_sparse_parts_of_a_crowded_map(page: Page):
    # 4,000 points in a corner, five in the rest of the map.
    page.evaluate(
        """() => {
             const place = (row) => [-0.9 + 0.001 * (row % 63), -0.9 + 0.001 * (row >> 6)];
             const near = Array.from({ length: 4000 }, (_, row) => place(row));
             const points = [...near, [0.5, 0.5], [0.6, 0.5], [0.5, 0.65], [0.4, 0.6], [0.62, 0.62]].flat();
             const count = points.length / 2;
             window.arrays = [new Float32Array(points), Uint32Array.from({ length: count }, (_, row) => row + 1),
               new Uint16Array(count)];
           }"""
    )
    page.evaluate(SHOW, {"images": "data:,", "imageQuery": ""})
    page.evaluate("map.moveTo(0.5, 0.55)")
    page.wait_for_function("/^([2-5])\\/\\1$/.test(document.querySelector('.map').dataset.thumbnails)")
    page.evaluate("map.moveTo(-0.85, -0.85)")
    expect(page.locator(".map")).to_have_attribute("data-thumbnails", "0/0")


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


def test_canvas_is_hidden_until_the_first_points_are_drawn(page: Page):
    page.evaluate("window.map = new TestMap(document.querySelector('#host'))")
    canvas = page.locator(".map canvas").first
    expect(canvas).to_be_hidden()  # WebGL without alpha is black
    page.evaluate(SHOW, {})
    expect(canvas).to_be_visible()


def test_map_follows_a_change_of_the_theme(page: Page):
    page.evaluate(SHOW, {})
    page.wait_for_function("map.background?.join() === '255,255,255'")
    page.evaluate("document.documentElement.style.setProperty('--st-background-color', '#14181d')")
    page.wait_for_function("map.background.join() === '20,24,29'")
