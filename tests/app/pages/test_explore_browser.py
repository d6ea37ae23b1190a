"""Explore and Clusters pages in a real browser: map, lasso, image dialog, and edits that are saved to disk."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.view_models.image_selection import normalize_coordinates
from tests.app.conftest import ARTIFACTS, RunningApp
from tests.fixtures.browser import button, by_key, draw, fill, text_box, to_window_coordinates
from tests.fixtures.tiny_run import COORDINATES, import_tiny_dataset, write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CUT_CHIPS = """() => [...document.querySelectorAll('.st-key-filter-chips *')]
  .flatMap((host) => [...(host.shadowRoot?.querySelectorAll('.chip span') ?? [])])
  .filter((words) => words.scrollWidth > words.clientWidth).map((words) => words.textContent)"""


def list_file_names(page: Page) -> list[str]:
    return [tile.get_attribute("title").split(" ")[0] for tile in page.get_by_test_id("stMain").locator(".tile").all()]


def select_on_map(page: Page) -> None:
    frame, coordinates = page.locator(".map").first, normalize_coordinates(COORDINATES).tolist()
    # Hovering near a point shows its image.
    page.mouse.move(*to_window_coordinates(page, coordinates[4]))
    expect(page.locator(".card img").first).to_have_attribute("src", re.compile(r"/images/set/5\?"))
    expect(page.locator(".card img").first).to_be_visible()
    page.mouse.move(*to_window_coordinates(page, (0, 0)))
    expect(page.locator(".card").first).to_be_hidden()

    # A lasso around the upper left selects cluster 0; a box with Ctrl adds an image of cluster 1.
    draw(page, [(-1.04, 0.3), (-0.5, 0.3), (-0.5, 0.9), (-1.04, 0.9), (-1.04, 0.4)], "Shift")
    expect(frame).to_have_attribute("data-chosen", "4")
    expect(page.locator(".tile")).to_have_count(4)
    assert sorted(list_file_names(page)) == [f"a/{number:05d}.png" for number in range(4)]
    page.keyboard.press("b")
    near = coordinates[4]
    draw(page, [(near[0] - 0.05, near[1] - 0.05), (near[0] + 0.05, near[1] + 0.05)], "Control")
    expect(frame).to_have_attribute("data-chosen", "5")
    expect(page.locator(".tile")).to_have_count(5)
    frame.press("Escape")  # first the pan tool, then no selection
    frame.press("Escape")
    expect(frame).to_have_attribute("data-chosen", "0")


def move_and_zoom(page: Page) -> None:
    frame, coordinates = page.locator(".map").first, normalize_coordinates(COORDINATES).tolist()
    initial = frame.get_attribute("data-view")

    # The wheel zooms around the mouse: the point under the mouse stays there.
    before = to_window_coordinates(page, coordinates[4])
    page.mouse.move(*before)
    page.mouse.wheel(0, -400)
    expect(frame).not_to_have_attribute("data-view", initial)
    np.testing.assert_allclose(
        to_window_coordinates(page, coordinates[4]), before, atol=2
    )  # events come in whole pixels
    assert float(frame.get_attribute("data-view").split()[2]) > 1.5 * float(initial.split()[2])
    frame.press("0")
    expect(frame).to_have_attribute("data-view", initial)

    # Dragging and the arrow keys move the map; Enter opens the image in the middle.
    draw(page, [(0, 0), (0.2, 0.1)])
    expect(frame).not_to_have_attribute("data-view", initial)
    frame.press("0")
    expect(frame).to_have_attribute("data-view", initial)
    for _ in range(2):
        frame.press("ArrowDown")
    expect(page.locator(".card").first).to_be_visible()
    frame.press("Enter")
    expect(page.get_by_role("dialog").locator(".title")).to_have_attribute("title", re.compile("c/0000"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    frame.press("0")


def get_legend_counts(page: Page) -> list[str]:
    return page.locator(".legend .count").all_inner_texts()


def use_legend(page: Page) -> None:
    # The eye of an entry hides its images on the map and in the gallery.
    eye = page.locator(".legend .eye").nth(2)
    eye.click()
    expect(page.locator(".tile")).to_have_count(8)
    eye.click()
    expect(page.locator(".tile")).to_have_count(12)

    # A click on an entry selects its images, and another click clears the selection.
    entry = page.locator(".legend .name").nth(2)
    entry.click()
    expect(page.locator(".map").first).to_have_attribute("data-chosen", "4")
    expect(page.locator(".picked .tile")).to_have_count(4)
    page.locator(".legend .name").nth(0).click(modifiers=["Control"])
    expect(page.locator(".picked .tile")).to_have_count(8)
    entry.click()
    expect(page.locator(".tile")).to_have_count(4)
    entry.click()
    expect(page.locator(".tile")).to_have_count(12)


def filter_images(page: Page) -> None:
    # Filters stay visible as chips once their form is closed, and the legend counts what they leave.
    before = page.locator(".map").first.bounding_box()
    assert get_legend_counts(page) == ["4", "4", "4"]
    button(page, "explore-filters").click()
    fill(page, "explore-search", "0001.png")
    expect(page.locator(".tile")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(text_box(page, "explore-search")).to_have_count(0)
    chip = page.locator(".chip")
    expect(chip).to_have_count(1)
    expect(chip).to_contain_text("0001.png")
    expect(page.locator(".map").first.locator(".count").first).to_have_text("1")
    assert get_legend_counts(page) == ["1", "1", "1"]
    assert page.locator(".map").first.bounding_box() == before
    page.locator(".legend .name").nth(0).click()
    expect(chip).to_have_count(2)
    assert page.evaluate(CUT_CHIPS) == []
    expect(page.get_by_test_id("stMain").get_by_role("status").first).to_have_text("1 of 12 images")
    page.locator(".legend .name").nth(0).click()
    expect(chip).to_have_count(1)

    # They survive a reload, and so does the open image: both are in the URL.
    page.get_by_test_id("stMain").locator(".tile").first.click()
    expect(page.get_by_role("dialog").locator(".position")).to_have_text("1 of 3")
    page.reload()
    expect(page.get_by_role("dialog").locator(".position")).to_have_text("1 of 3")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(chip).to_contain_text("0001.png")
    expect(page.locator(".tile")).to_have_count(3)
    chip.click()
    expect(page.locator(".tile")).to_have_count(12)
    expect(chip).to_have_count(0)
    expect(page.locator(".legend .count").first).to_have_text("4")


def pick_in_gallery(page: Page) -> None:
    # Ctrl + click selects an image instead of opening it, Shift + click a range; nothing moves.
    tiles, frame = page.get_by_test_id("stMain").locator(".tile"), page.locator(".map").first
    before = frame.bounding_box(), tiles.nth(5).bounding_box()
    tiles.nth(1).click(modifiers=["Control"])
    expect(frame).to_have_attribute("data-chosen", "1")
    expect(page.get_by_role("dialog")).to_have_count(0)
    tiles.nth(3).click(modifiers=["Shift"])
    expect(frame).to_have_attribute("data-chosen", "3")
    page.locator(".pick").nth(2).click()
    expect(frame).to_have_attribute("data-chosen", "2")
    expect(tiles).to_have_count(12)
    expect(by_key(page, "selection-bar").get_by_text("2 selected")).to_be_visible()
    assert (frame.bounding_box(), tiles.nth(5).bounding_box()) == before
    with page.expect_download() as download:
        button(page, "export-images").click()
    table = Path(download.value.path()).read_text(encoding="utf-8-sig").splitlines()
    titles = [tile.get_attribute("title").split(" ")[0] for tile in page.locator(".picked .tile").all()]
    assert sorted(line.split(",")[0] for line in table[1:]) == sorted(titles)
    button(page, "move-selection").click()
    labels = [name for name in by_key(page, "move-images").locator("button").all_inner_texts() if name]
    assert labels == ["Move images"]  # no button is cut off
    page.keyboard.press("Escape")
    button(page, "clear-selection").click()
    expect(frame).to_have_attribute("data-chosen", "0")


def colour_by_confidence(page: Page) -> None:
    # The dots of the gallery have the colours of the map, not those of the clusters.
    by_key(page, "explore-by").get_by_role("radio").nth(2).click()
    expect(page.locator(".legend .ramp")).to_be_visible()
    dots = page.get_by_test_id("stMain").locator("figure .dot")
    expect(dots.first).to_have_css("background-color", re.compile(r"rgb\(22[56], 22[67], 4[45]\)"))  # 0.95
    expect(dots.last).to_have_css("background-color", "rgb(53, 183, 121)")  # 0.6 is one of the six colours of the ramp
    by_key(page, "explore-by").get_by_role("radio").nth(0).click()
    expect(page.locator(".legend .text").first).to_have_text("cluster 0")


def close_dialog_after_a_neighbour(page: Page) -> None:
    # Esc closes the dialog, also after a click on a neighbour replaced the focused image.
    page.get_by_test_id("stMain").locator(".tile").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".tile")).to_have_count(11)
    name = dialog.locator(".tile").nth(2).get_attribute("title").split(" ")[0]
    dialog.locator(".tile").nth(2).click()
    expect(dialog.locator(".title")).to_have_attribute("title", re.compile(f"{name}$"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def open_image_dialog(page: Page) -> None:
    # A click opens the image with its neighbours, the nearest first.
    page.mouse.click(*to_window_coordinates(page, normalize_coordinates(COORDINATES).tolist()[0]))
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".title")).to_have_text("00000.png")
    expect(dialog.locator(".tile")).to_have_count(11)
    expect(dialog.locator("figcaption").first).to_contain_text("1.00 · 80%")
    assert [dialog.locator("figure").nth(index).get_attribute("class") for index in (0, 1, 3)] == [
        "good",
        "good",
        "bad",
    ]
    page.screenshot(path=ARTIFACTS / "image_dialog.png")
    button(dialog, "show-on-map").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".ring.place").first).to_be_visible()


def fill_the_window(page: Page) -> None:
    # Map and gallery end just above the selection bar; the legend is never below the fold.
    for width, height in ((1280, 720), (1440, 900), (1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            f"document.querySelector('.st-key-selection-bar').getBoundingClientRect().bottom > {height - 20}"
        )
        frame, legend, gallery = (
            page.locator(which).first.bounding_box() for which in (".map", ".legend", ".st-key-scroll-explore")
        )
        bar = by_key(page, "selection-bar").bounding_box()
        assert bar["y"] + bar["height"] <= height
        for box in (frame, gallery):
            assert bar["y"] - 12 <= box["y"] + box["height"] <= bar["y"]
        assert legend["y"] + legend["height"] <= frame["y"] + frame["height"]
        assert frame["height"] > 0.68 * height
        assert page.get_by_test_id("stMain").evaluate("main => main.scrollHeight - main.clientHeight") <= 1


def test_explore_map_selects_images_and_opens_them(page: Page, app: RunningApp, tmp_path: Path):
    write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    external: list[str] = []
    page.on(
        "request", lambda request: request.url.startswith((app.url, "data:", "blob:")) or external.append(request.url)
    )
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{app.url}/explore")
    frame = page.locator(".map").first
    expect(frame).to_have_attribute("data-drawn", "12")
    expect(page.locator(".tile")).to_have_count(12)
    fill_the_window(page)
    select_on_map(page)
    move_and_zoom(page)
    use_legend(page)
    filter_images(page)
    pick_in_gallery(page)
    colour_by_confidence(page)
    close_dialog_after_a_neighbour(page)
    open_image_dialog(page)
    assert external == []
    assert errors == []
