"""Histograms of columns in a real browser: brush, categories, keyboard, chips, and the number of images left."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import RunningApp
from tests.fixtures.browser import by_key
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import write_tiny_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

READ_OPACITY = "one => getComputedStyle(one, '::after').opacity"


def expect_listed(page: Page, text: str) -> None:
    expect(page.get_by_role("status").filter(has_text="image").first).to_have_text(text)


def test_histograms_filter_images_and_react_to_each_other(app: RunningApp, page: Page, tmp_path: Path):
    workspace, folder = app.workspace, tmp_path / "in"
    save_images(folder, 12)
    lines = [
        f"{number:05d}.png,{number % 4 + 1},{'Bonn at the river Rhine' if number < 5 else 'Trier'}"
        for number in range(12)
    ]
    (folder / "list.csv").write_text("\n".join(["path,stars,city", *lines]))
    dataset, _ = workspace.import_dataset(str(folder / "list.csv"), name="listed")
    write_tiny_run(workspace, dataset)
    page.goto(f"{app.url}/explore?dataset=listed&run=tiny-run")
    expect(page.locator(".tile")).to_have_count(12)
    by_key(page, "explore-columns").locator("button:visible").first.click()
    city, stars = (page.locator(f"section[data-name={name}]") for name in ("city", "stars"))
    expect(city.locator(".row")).to_have_count(2)
    handle = stars.get_by_role("slider", name="Lowest stars")
    page.mouse.move(1, 1)
    assert handle.evaluate(READ_OPACITY) == "0"  # without a filter, it would look like a bar
    handle.focus()
    assert handle.evaluate(READ_OPACITY) == "1"

    city.get_by_role("button", name="Bonn").click()
    expect_listed(page, "5 of 12 images")
    expect(city.get_by_role("button", name="Bonn")).to_have_attribute("aria-pressed", "true")
    expect(city.locator(".count")).to_have_text(["7", "5"])  # its own filter does not change it; Trier is larger

    area = stars.locator(".plot").bounding_box()
    page.mouse.move(area["x"] + 0.55 * area["width"], area["y"] + 10)
    page.mouse.down()
    page.mouse.move(area["x"] + 0.7 * area["width"], area["y"] + 10, steps=3)
    page.mouse.up()
    expect_listed(page, "1 of 12 images")  # three stars in Bonn: the third image
    expect(page.locator(".tile").first).to_have_attribute("aria-label", "00002.png · cluster 0, confidence 70.0%")
    expect(city.locator(".count")).to_have_text(["2", "1"])
    chips, host = page.locator(".chip"), page.locator(".chips").bounding_box()
    expect(chips).to_have_count(2)
    for box in (chip.bounding_box() for chip in chips.all()):
        assert host["x"] <= box["x"] < box["x"] + box["width"] <= host["x"] + host["width"] + 0.5
    expect(stars.locator("h2")).to_have_text("stars: 3 – 3")  # noqa: RUF001
    assert handle.evaluate(READ_OPACITY) == "1"

    stars.get_by_role("slider", name="Lowest stars").press("ArrowLeft")
    expect_listed(page, "2 of 12 images")
    page.get_by_role("button", name="stars 2 to 3").click()  # the chip
    expect_listed(page, "5 of 12 images")
    city.get_by_role("button", name="Remove the filter").click()
    expect_listed(page, "12 images")
