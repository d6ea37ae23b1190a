"""Motion of the points of the map between two layouts, in a real browser with a clock that the test controls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Page, expect

from app.view_models.image_selection import normalize_coordinates
from crlc.analysis.maps.settings import MapSettings, get_map_path, write_map
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.runs.results import get_maps_folder
from tests.app.conftest import ARTIFACTS, RunningApp
from tests.fixtures.browser import by_key, draw, to_window_coordinates
from tests.fixtures.tiny_run import COORDINATES, import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PCA_COORDINATES = np.stack([-COORDINATES[:, 1], COORDINATES[:, 0]], axis=1)
"""The UMAP map turned by 90 degrees: every point moves."""

UMAP, PCA = normalize_coordinates(COORDINATES), normalize_coordinates(PCA_COORDINATES)
HALFWAY_MS, END_MS = 300, 600
ROW = 4
TOLERANCE_PIXELS = 0.6
"""The canvas has a fractional width, which the map rounds."""

STOP_CLOCK = "window.mapMs = 0; window.crlcMapClock = () => window.mapMs;"
NO_WEBGL = """
const getContext = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  return kind === "webgl2" ? null : getContext.call(this, kind, options);
};
"""
LOCATE = """(frame, row) => {
  const [x, y] = frame.parentNode.pointMap.toScreen(row);
  const box = frame.querySelector("canvas").getBoundingClientRect();
  return [box.left + x, box.top + y];
}"""
IS_DRAWN_AT = """(frame, [x, y]) => {
  const canvas = frame.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d");
  context.drawImage(canvas, 0, 0);
  const [red, green, blue] = context.getImageData((x - box.left) * ratio, (y - box.top) * ratio, 1, 1).data;
  const [r, g, b] = context.getImageData(2, 2, 1, 1).data;
  return Math.abs(red - r) + Math.abs(green - g) + Math.abs(blue - b) > 24;
}"""


@pytest.fixture
def dataset(app: RunningApp, tmp_path: Path) -> ImageDataset:
    """Create a run of twelve images with different UMAP and PCA maps."""
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    run = write_tiny_run(app.workspace, dataset)
    write_map(get_map_path(get_maps_folder(run), run.open_result()[0]["z"], MapSettings("pca")), PCA_COORDINATES)
    return dataset


def open_map(page: Page, app: RunningApp, count: int, *scripts: str) -> Locator:
    for script in scripts:
        page.add_init_script(script)
    page.goto(f"{app.url}/explore")
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", str(count))
    expect(frame).to_have_attribute("data-moving", "false")
    expect(page.locator(".tile")).to_have_count(count)
    return frame


def show_method(page: Page, name: str) -> None:
    by_key(page, "explore-method").get_by_text(name, exact=True).click()


def wait_for_layout(page: Page, method: str) -> None:
    """Wait until the map has received the coordinates of this method."""
    page.wait_for_function(
        "method => [...document.querySelectorAll('.st-key-explore-map *')]"
        ".some(host => host.shadowRoot?.pointMap?.layout?.name.endsWith(method))",
        arg=f"/{method}",
    )


def set_clock(page: Page, milliseconds: float) -> None:
    """Set the clock of the map, and wait until it is drawn again."""
    page.evaluate(
        "ms => { window.mapMs = ms; return new Promise(done => "
        "requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done())))); }",
        milliseconds,
    )


def expect_point_at(page: Page, frame: Locator, row: int, coordinates: NDArray[np.floating]) -> None:
    """Check that the point is in this place of the map, and that its pixel is coloured."""
    expected = to_window_coordinates(page, tuple(coordinates.tolist()))
    np.testing.assert_allclose(frame.evaluate(LOCATE, row), expected, atol=TOLERANCE_PIXELS)
    assert frame.evaluate(IS_DRAWN_AT, expected)


def expect_nothing_at(page: Page, frame: Locator, coordinates: NDArray[np.floating]) -> None:
    assert not frame.evaluate(IS_DRAWN_AT, to_window_coordinates(page, tuple(coordinates.tolist())))


def expect_gestures_ignored(page: Page, frame: Locator, places: list[NDArray[np.floating]]) -> None:
    """Hover, click and select on the map while its points move; the selection of one image must stay."""
    for place in places:
        page.mouse.click(*to_window_coordinates(page, tuple(place.tolist())))
        expect(page.locator(".card").first).to_be_hidden()
    draw(page, [(-1.02, -1.02), (1.02, 1.02)], "Alt")
    page.mouse.move(*to_window_coordinates(page, tuple(places[0].tolist())))
    # The page runs again: an opened image or another selection would be visible.
    by_key(page, "explore-by").get_by_text("Confidence", exact=True).click()
    expect(page.locator(".legend .ramp").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert frame.get_attribute("data-chosen") == "1"


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("kind", ["webgl2", "2d"])
def test_points_move_halfway_and_arrive_when_the_method_changes(page: Page, app: RunningApp, kind: str):
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "INVALID" in message.text else None)
    frame = open_map(page, app, 12, STOP_CLOCK, *([NO_WEBGL] if kind == "2d" else []))
    expect(frame).to_have_attribute("data-kind", kind)
    expect_point_at(page, frame, ROW, UMAP[ROW])
    near = UMAP[ROW].tolist()
    draw(page, [(near[0] - 0.03, near[1] - 0.03), (near[0] + 0.03, near[1] + 0.03)], "Alt")
    expect(frame).to_have_attribute("data-chosen", "1")

    # The points start where they were; data-drawn, data-chosen and data-view already describe the new layout.
    show_method(page, "PCA")
    expect(frame).to_have_attribute("data-moving", "true")
    assert (frame.get_attribute("data-drawn"), frame.get_attribute("data-chosen")) == ("12", "1")
    set_clock(page, 0)
    expect_point_at(page, frame, ROW, UMAP[ROW])

    # Halfway in time is halfway in place; a point is neither at its old nor at its new place.
    set_clock(page, HALFWAY_MS / 2)
    early = (15 * UMAP[ROW] + PCA[ROW]) / 16  # cubic easing: 4 * 0.25 ** 3
    expect_point_at(page, frame, ROW, early)
    set_clock(page, HALFWAY_MS)
    halfway = (UMAP + PCA) / 2
    for row in range(12):
        expect_point_at(page, frame, row, halfway[row])
    expect_nothing_at(page, frame, UMAP[ROW])
    expect_nothing_at(page, frame, PCA[ROW])
    page.screenshot(path=ARTIFACTS / f"map_halfway_{kind}.png")

    # Gestures are ignored; another colouring and another size of the window do not disturb the motion.
    expect_gestures_ignored(page, frame, [halfway[ROW], PCA[ROW]])
    width = page.locator(".map canvas").first.bounding_box()["width"]
    page.set_viewport_size({"width": 1100, "height": 800})
    page.wait_for_function("width => document.querySelector('.st-key-explore-map').clientWidth < width - 20", arg=width)
    set_clock(page, HALFWAY_MS)
    expect(frame).to_have_attribute("data-moving", "true")
    for row in range(12):
        expect_point_at(page, frame, row, halfway[row])

    # The other direction starts from the places of this moment, also on the screen, and arrives.
    places = [frame.evaluate(LOCATE, row) for row in range(12)]
    show_method(page, "UMAP")
    wait_for_layout(page, "umap")
    set_clock(page, HALFWAY_MS)
    np.testing.assert_allclose([frame.evaluate(LOCATE, row) for row in range(12)], places, atol=0.01)
    assert all(frame.evaluate(IS_DRAWN_AT, place) for place in places)
    page.mouse.move(*to_window_coordinates(page, tuple(UMAP[ROW].tolist())))
    expect(page.locator(".card").first).to_be_hidden()
    set_clock(page, HALFWAY_MS + END_MS)
    expect(frame).to_have_attribute("data-moving", "false")
    for row in range(12):
        expect_point_at(page, frame, row, UMAP[row])
    expect_nothing_at(page, frame, halfway[ROW])
    expect(page.locator(".card").first).to_be_visible()  # the mouse waits above the point
    assert errors == []


@pytest.mark.usefixtures("dataset")
def test_reduced_motion_shows_the_new_layout_at_once(page: Page, app: RunningApp):
    page.emulate_media(reduced_motion="reduce")
    frame = open_map(page, app, 12, STOP_CLOCK)
    frame.evaluate(
        "frame => { frame.moved = []; new MutationObserver(() => frame.moved.push(frame.dataset.moving))"
        ".observe(frame, { attributeFilter: ['data-moving'] }); }"
    )
    show_method(page, "PCA")
    wait_for_layout(page, "pca")
    set_clock(page, 0)
    for row in range(12):
        expect_point_at(page, frame, row, PCA[row])
    assert "true" not in frame.evaluate("frame => frame.moved")


def test_growing_map_keeps_the_view_and_fades_new_points_in(page: Page, app: RunningApp, dataset: ImageDataset):
    kept = np.setdiff1d(np.arange(12), [0, 2])  # the leftmost points: without them, all others are elsewhere
    with AnnotationStore(dataset) as annotations:
        annotations.exclude([1, 3])
    frame = open_map(page, app, 10, STOP_CLOCK)
    before = normalize_coordinates(COORDINATES[kept])
    expect_point_at(page, frame, 2, before[2])
    fitted = frame.get_attribute("data-view")
    page.mouse.move(*to_window_coordinates(page, (-0.9, 0.6)))
    page.mouse.wheel(0, -60)
    expect(frame).not_to_have_attribute("data-view", fitted)
    view = frame.get_attribute("data-view")

    with AnnotationStore(dataset) as annotations:
        annotations.include([1, 3])
    by_key(page, "explore-by").get_by_text("Confidence", exact=True).click()  # the page runs again
    expect(frame).to_have_attribute("data-drawn", "12")
    expect(frame).to_have_attribute("data-moving", "true")
    set_clock(page, 0)
    assert frame.get_attribute("data-view") == view
    expect_nothing_at(page, frame, UMAP[0])
    set_clock(page, HALFWAY_MS)
    expect_point_at(page, frame, 4, (before[2] + UMAP[4]) / 2)
    expect_point_at(page, frame, 0, UMAP[0])
    set_clock(page, END_MS)
    expect(frame).to_have_attribute("data-moving", "false")
    for row in (0, 1, 2, 3, 4):
        expect_point_at(page, frame, row, UMAP[row])
    assert frame.get_attribute("data-view") == view

    # Another method shows the whole map; on the way there, the view changes with the points.
    place = frame.evaluate(LOCATE, ROW)
    show_method(page, "PCA")
    expect(frame).to_have_attribute("data-moving", "true")
    set_clock(page, END_MS)
    np.testing.assert_allclose(frame.evaluate(LOCATE, ROW), place, atol=0.01)
    set_clock(page, 2 * END_MS)
    expect(frame).to_have_attribute("data-moving", "false")
    assert frame.get_attribute("data-view") == fitted
    expect_point_at(page, frame, ROW, PCA[ROW])
