"""Explore and Clusters in a real browser: the map, the lasso, the image, and edits that are on the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from app.exploring.choosing import spread
from crlc.training.run_folder import RunFolder
from crlc.workspace.run_analysis import RunAnalysis
from tests.app.conftest import ARTIFACTS, RunningApp
from tests.app.tiny_run import PLACES, tiny_dataset, tiny_run


def on_screen(page: Page, place: tuple[float, float]) -> tuple[float, float]:
    """Where a place of the map is in the window."""
    frame = page.locator(".map").first
    x, y, scale = map(float, frame.get_attribute("data-view").split())
    box = page.locator(".map canvas").first.bounding_box()
    return (
        box["x"] + box["width"] / 2 + (place[0] - x) * scale,
        box["y"] + box["height"] / 2 - (place[1] - y) * scale,
    )


def draw(page: Page, corners: list[tuple[float, float]], *keys: str) -> None:
    """Press, follow the corners, let go."""
    points = [on_screen(page, corner) for corner in corners]
    for key in keys:
        page.keyboard.down(key)
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=6)
    page.mouse.up()
    for key in keys:
        page.keyboard.up(key)


def gallery_titles(page: Page) -> list[str]:
    return [tile.get_attribute("title").split(" ")[0] for tile in page.get_by_test_id("stMain").locator(".tile").all()]


def choose_on_the_map(page: Page) -> None:
    frame, places = page.locator(".map").first, spread(PLACES).tolist()
    # Hovering shows the picture, and only near a point.
    page.mouse.move(*on_screen(page, places[4]))
    expect(page.locator(".card img").first).to_be_visible()
    assert "/images/set/5?" in page.locator(".card img").first.get_attribute("src")
    page.mouse.move(*on_screen(page, (0, 0)))
    expect(page.locator(".card").first).to_be_hidden()

    # A lasso around the upper left chooses cluster 0; a box adds one of cluster 1.
    draw(page, [(-1.04, 0.3), (-0.5, 0.3), (-0.5, 0.9), (-1.04, 0.9), (-1.04, 0.4)], "Shift")
    expect(frame).to_have_attribute("data-chosen", "4")
    expect(page.locator(".tile")).to_have_count(4)
    assert sorted(gallery_titles(page)) == [f"a/{number:05d}.png" for number in range(4)]
    page.keyboard.press("b")
    near = places[4]
    draw(page, [(near[0] - 0.05, near[1] - 0.05), (near[0] + 0.05, near[1] + 0.05)], "Control")
    expect(frame).to_have_attribute("data-chosen", "5")
    expect(page.locator(".tile")).to_have_count(5)
    frame.press("Escape")  # back to moving, then nothing chosen
    frame.press("Escape")
    expect(frame).to_have_attribute("data-chosen", "0")


def move_and_zoom(page: Page) -> None:
    frame, places = page.locator(".map").first, spread(PLACES).tolist()
    usual = frame.get_attribute("data-view")

    # The wheel zooms around the mouse: what is under it stays there.
    before = on_screen(page, places[4])
    page.mouse.move(*before)
    page.mouse.wheel(0, -400)
    expect(frame).not_to_have_attribute("data-view", usual)
    np.testing.assert_allclose(on_screen(page, places[4]), before, atol=2)  # events come in whole pixels
    assert float(frame.get_attribute("data-view").split()[2]) > 1.5 * float(usual.split()[2])
    frame.press("0")
    expect(frame).to_have_attribute("data-view", usual)

    # Dragging moves the map; so do the arrows, and Enter opens what is in the middle.
    draw(page, [(0, 0), (0.2, 0.1)])
    expect(frame).not_to_have_attribute("data-view", usual)
    frame.press("0")
    expect(frame).to_have_attribute("data-view", usual)
    for _ in range(2):
        frame.press("ArrowDown")
    expect(page.locator(".card").first).to_be_visible()
    frame.press("Enter")
    expect(page.get_by_role("dialog").get_by_text("c/0000")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    frame.press("0")


def filter_by_the_legend(page: Page) -> None:
    # The legend filters map and gallery.
    page.get_by_role("button", name="cluster 2 4").click()
    expect(page.locator(".tile")).to_have_count(8)
    page.get_by_role("button", name="cluster 2 4").click()
    expect(page.locator(".tile")).to_have_count(12)


def look_at_an_image(page: Page) -> None:
    # A click opens the image with its neighbours, the nearest first.
    page.mouse.click(*on_screen(page, spread(PLACES).tolist()[0]))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("a/00000.png")).to_be_visible()
    expect(dialog.locator(".tile")).to_have_count(11)
    expect(dialog.locator("figcaption").first).to_have_text("s 1.00 p 0.80")
    assert [dialog.locator("figure").nth(place).get_attribute("class") for place in (0, 1, 3)] == [
        "good",
        "good",
        "bad",
    ]
    page.screenshot(path=ARTIFACTS / "image_dialog.png")
    dialog.get_by_role("button", name="Show on the map").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".ring.place").first).to_be_visible()


def edit_clusters(page: Page, app: RunningApp, run: RunFolder) -> None:
    # Name and merge; both are on the disk when the page says so, and undo takes the last one back.
    page.goto(f"{app.url}/clusters")
    name = page.get_by_role("textbox", name="Name of cluster 0")
    name.fill("**cats** <b>")
    name.press("Enter")
    expect(page.get_by_text("Saved")).to_be_visible()
    assert RunAnalysis.open(app.workspace, run.id).names == {0: "**cats** <b>"}
    expect(page.get_by_text("0 **cats** <b>").first).to_be_visible()
    for number in (1, 2):
        tick = page.locator(f".st-key-tick-{number}").get_by_role("button")
        expect(tick).to_have_count(1)  # while the page runs again, what it showed before is there as well
        tick.click()
    page.get_by_role("button", name="Merge 2 clusters").click()
    expect(page.get_by_text("merge clusters 1 and 2")).to_be_visible()
    assert RunAnalysis.open(app.workspace, run.id).clusters.tolist() == [0] * 4 + [1] * 8
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: merge clusters 1 and 2")).to_be_visible()
    assert len(set(RunAnalysis.open(app.workspace, run.id).clusters.tolist())) == 3


def test_map_lasso_image_name_merge_and_undo(page: Page, app: RunningApp, tmp_path: Path):
    expect.set_options(timeout=20_000)  # a busy computer is no failure
    run = tiny_run(app.workspace, tiny_dataset(app.workspace, tmp_path / "set"))
    elsewhere: list[str] = []
    page.on(
        "request", lambda request: request.url.startswith((app.url, "data:", "blob:")) or elsewhere.append(request.url)
    )
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"{app.url}/explore")
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", "12")
    expect(page.locator(".tile")).to_have_count(12)
    choose_on_the_map(page)
    move_and_zoom(page)
    filter_by_the_legend(page)
    look_at_an_image(page)
    edit_clusters(page, app, run)
    assert elsewhere == []
    assert troubles == []
