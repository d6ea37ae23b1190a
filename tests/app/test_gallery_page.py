"""Galleries in a real browser: their pages, an image that was looked at, pictures that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import Locator, Page, expect

from crlc.analysis.map_settings import MapSettings, map_file, write_map
from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.run_files import maps_folder
from tests.app.conftest import RunningApp
from tests.app.tiny_run import describe_run
from tests.pictures import save_pictures
from tests.workspace.handmade_results import handmade_result, on_circle

COUNT = 200
SCROLLED = """grid => {
  for (let box = grid.getRootNode().host; box; box = box.parentElement) if (box.scrollTop) return box.scrollTop;
  return 0;
}"""


def run_of_many(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    """Two clusters of a hundred; the first images are the surest."""
    describe_run(workspace, dataset, "many", clusters=2)
    angles, sure = np.linspace(0, 180, COUNT).tolist(), np.linspace(0.99, 0.6, COUNT).tolist()
    clusters = [0] * (COUNT // 2) + [1] * (COUNT // 2)
    run = handmade_result(workspace, dataset, name="many", z=on_circle(angles), clusters=clusters, sure=sure)
    maps_folder(run).mkdir()
    z = run.result()[0]["z"]
    write_map(map_file(maps_folder(run), z, MapSettings("umap")), z)
    return run


def expect_page(page: Page, number: int, pages: int, images: int) -> Locator:
    """All its pictures are there; returns the grid."""
    expect(page.get_by_text(f"page {number} of {pages}", exact=True)).to_be_visible()
    grid = page.get_by_test_id("stMain").locator(".gallery")
    expect(grid.locator(".tile")).to_have_count(images)
    expect(grid.locator("img[src], .broken img")).to_have_count(images)
    return grid


def look_and_close(page: Page, grid: Locator, place: int) -> None:
    """Nothing of the gallery changes: its images, its place, its sizes."""
    tile = grid.locator(".tile").nth(place)
    tile.scroll_into_view_if_needed()
    before = grid.inner_text(), grid.evaluate(SCROLLED), grid.bounding_box()["height"]
    name = tile.get_attribute("title").split(" ")[0]
    tile.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text(name, exact=True)).to_be_visible()
    expect(dialog.locator(".tile img[src]")).to_have_count(12)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("[data-stale=true]")).to_have_count(0)
    assert (grid.inner_text(), grid.evaluate(SCROLLED), grid.bounding_box()["height"]) == before


def test_a_gallery_stays_where_it_is(page: Page, app: RunningApp, tmp_path: Path):
    expect.set_options(timeout=20_000)  # a busy computer is no failure
    files = save_pictures(tmp_path / "set", COUNT)
    dataset, _ = app.workspace.import_dataset(str(tmp_path / "set"))
    run_of_many(app.workspace, dataset)
    answers: list[str] = []
    page.on("request", lambda request: answers.append(request.url) if "/galleries/" in request.url else None)
    page.goto(f"{app.url}/explore")
    expect_page(page, 1, 4, 60)
    page.get_by_role("radio", name="least sure").click()
    expect(page.locator(".tile").first).to_have_attribute("title", "00199.png · cluster 1, confidence 60.0%")
    for number, first in (
        (2, "00139.png · cluster 1, confidence 71.8%"),
        (3, "00079.png · cluster 0, confidence 83.5%"),
    ):
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".tile").first).to_have_attribute("title", first)
        grid = expect_page(page, number, 4, 60)
    assert len(answers) == 4  # one for each page that was shown
    look_and_close(page, grid, 41)
    expect_page(page, 3, 4, 60)
    assert len(answers) == 5  # the dialog had one of its own; closing it brought nothing anew

    # Neither the original nor its pixels are there any more: the others are shown all the same, the page as high.
    files[7].unlink()
    shutil.rmtree(dataset.folder / "pixels")
    page.get_by_role("button", name="Next").click()
    grid = expect_page(page, 4, 4, 20)
    expect(grid.locator(".broken .tile")).to_have_count(1)
    expect(grid.locator(".broken .tile")).to_have_attribute("title", "00007.png · cluster 0, confidence 97.6%")

    page.goto(f"{app.url}/clusters")
    page.get_by_test_id("stMain").get_by_role("button", name="Open", exact=True).first.click()
    expect_page(page, 1, 2, 60)
    page.get_by_role("button", name="Next").click()
    look_and_close(page, expect_page(page, 2, 2, 40), 35)
    expect_page(page, 2, 2, 40)
