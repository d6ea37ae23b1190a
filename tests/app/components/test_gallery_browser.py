"""Galleries in a real browser: pages, the image dialog, and images that cannot be shown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from crlc.analysis.maps.settings import MapSettings, get_map_path, write_map
from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.runs.results import get_maps_folder
from crlc.workspace import Workspace
from tests.app.conftest import RunningApp
from tests.fixtures.browser import button, by_key, cluster_card, select_option
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import describe_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

COUNT = 200
SCROLLED = """grid => {
  for (let box = grid.getRootNode().host; box; box = box.parentElement) if (box.scrollTop) return box.scrollTop;
  return 0;
}"""


def create_large_run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    """Create a run with two clusters of 100 images; the confidence falls from the first image to the last."""
    describe_run(workspace, dataset, "many", clusters=2)
    angles, confidences = np.linspace(0, 180, COUNT).tolist(), np.linspace(0.99, 0.6, COUNT).tolist()
    clusters = [0] * (COUNT // 2) + [1] * (COUNT // 2)
    run = write_handmade_result(
        workspace, dataset, name="many", z=place_on_circle(angles), clusters=clusters, confidences=confidences
    )
    get_maps_folder(run).mkdir()
    z = run.open_result()[0]["z"]
    write_map(get_map_path(get_maps_folder(run), z, MapSettings("umap")), z)
    return run


def expect_page(page: Page, number: int, pages: int, images: int) -> Locator:
    """Wait until a page of the gallery has loaded all its images; return the grid."""
    expect(page.get_by_text(f"{number} of {pages}")).to_be_visible()
    grid = page.get_by_test_id("stMain").locator(".gallery")
    expect(grid.locator(".tile")).to_have_count(images)
    expect(grid.locator("img[src], .broken img")).to_have_count(images)
    return grid


def open_and_close_image(page: Page, grid: Locator, index: int) -> None:
    """Open and close the dialog of an image; the gallery keeps its images, scroll position and height."""
    tile = grid.locator(".tile").nth(index)
    tile.scroll_into_view_if_needed()
    before = grid.inner_text(), grid.evaluate(SCROLLED), grid.bounding_box()["height"]
    name = tile.get_attribute("title").split(" ")[0]
    tile.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".title")).to_have_text(name)
    expect(dialog.locator(".tile img[src]")).to_have_count(12)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("[data-stale=true]")).to_have_count(0)
    assert (grid.inner_text(), grid.evaluate(SCROLLED), grid.bounding_box()["height"]) == before


def test_gallery_keeps_its_page_and_scroll_position(page: Page, app: RunningApp, tmp_path: Path):
    files = save_images(tmp_path / "set", COUNT)
    dataset, _ = app.workspace.import_dataset(str(tmp_path / "set"))
    create_large_run(app.workspace, dataset)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if "/galleries/" in request.url else None)
    page.goto(f"{app.url}/explore")
    expect_page(page, 1, 4, 60)
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-point-size", re.compile("."))
    fitted = frame.get_attribute("data-view"), float(frame.get_attribute("data-point-size"))
    for _ in range(5):
        frame.press("-")
    expect(frame).not_to_have_attribute("data-view", fitted[0])
    page.wait_for_function(f"map => Number(map.dataset.pointSize) < {0.9 * fitted[1]}", arg=frame.element_handle())
    frame.press("0")  # points are smaller the nearer they are on the screen
    expect(frame).to_have_attribute("data-point-size", f"{fitted[1]:.2f}")
    select_option(page, "explore-order", 1)
    expect(page.locator(".tile").first).to_have_attribute("aria-label", "00199.png · cluster 1, confidence 60.0%")
    for number, first in (
        (2, "00139.png · cluster 1, confidence 71.8%"),
        (3, "00079.png · cluster 0, confidence 83.5%"),
    ):
        button(page, "next-page-explore").click()
        expect(page.locator(".tile").first).to_have_attribute("aria-label", first)
        grid = expect_page(page, number, 4, 60)
    assert len(requests) == 4  # one for each page that was shown, and one for the new order
    open_and_close_image(page, grid, 41)
    expect_page(page, 3, 4, 60)
    assert len(requests) == 5  # one for the dialog; closing it requests nothing

    # One image has neither its original nor stored pixels: the others are still shown.
    files[7].unlink()
    shutil.rmtree(dataset.folder / "pixels")
    button(page, "next-page-explore").click()
    grid = expect_page(page, 4, 4, 20)
    expect(grid.locator(".broken .tile")).to_have_count(1)
    expect(grid.locator(".broken .tile")).to_have_attribute("aria-label", "00007.png · cluster 0, confidence 97.6%")

    page.goto(f"{app.url}/clusters")
    cluster_card(page, 0).get_by_role("button", name="cluster 0", exact=True).click()
    expect_page(page, 1, 2, 60)
    button(page, "next-page-cluster").click()
    open_and_close_image(page, expect_page(page, 2, 2, 40), 35)
    expect_page(page, 2, 2, 40)


def test_gallery_is_one_tab_stop_and_space_selects(page: Page, app: RunningApp, tmp_path: Path):
    save_images(tmp_path / "set", COUNT)
    create_large_run(app.workspace, app.workspace.import_dataset(str(tmp_path / "set"))[0])
    page.goto(f"{app.url}/explore")
    grid = expect_page(page, 1, 4, 60)
    stops = grid.evaluate("grid => [...grid.querySelectorAll('button')].filter((one) => one.tabIndex === 0).length")
    assert stops == 1
    assert float(grid.locator(".pick").nth(5).evaluate("pick => getComputedStyle(pick).opacity")) > 0  # without hover
    page.mouse.move(0, 0)
    tiles = grid.locator(".tile")
    tiles.first.focus()
    for key, expected in (("ArrowRight", 1), ("End", 59), ("Home", 0), ("ArrowRight", 1)):
        page.keyboard.press(key)
        expect(tiles.nth(expected)).to_be_focused()
        assert tiles.nth(expected).get_attribute("tabindex") == "0"
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Space")
    expect(grid.locator(".pick[aria-checked=true]")).to_have_count(3)
    expect(by_key(page, "selection-bar")).to_contain_text("3 selected")
    expect(page.get_by_role("dialog")).to_have_count(0)  # Space opens nothing
    expect(tiles.nth(3)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
