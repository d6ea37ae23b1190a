"""The exported map in a real browser, from the disk and offline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from crlc.export.html_map import write_html_map
from tests.export.test_html_map import ATTACK, create_export, dataset, run  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser

LOCATE = "row => window.pointMap.toScreen(row)"


def test_exported_map_shows_names_images_and_contours(browser: Browser, run, dataset, tmp_path: Path):  # noqa: F811
    write_html_map(create_export(run, dataset), tmp_path / "map.html")
    page = browser.new_page(viewport={"width": 1000, "height": 700}, offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto((tmp_path / "map.html").as_uri())
    frame, card = page.locator(".map"), page.locator(".card")
    expect(frame).to_have_attribute("data-drawn", "5")
    assert page.locator(".legend .text").first.evaluate("node => node.textContent") == "0 </script><b>bold</b>"
    names = page.locator(".label").all_text_contents()
    assert sorted(names) == ["0 </script><b>bold</b>", "cluster 1", "cluster 2"]
    box = page.locator("canvas").first.bounding_box()
    widths = {}
    for row in range(5):
        x, y = page.evaluate(LOCATE, row)
        page.mouse.move(box["x"] + x, box["y"] + y)
        expect(card).to_be_visible()
        width = card.locator("img").evaluate("async image => (await image.decode(), image.naturalWidth)")
        widths[card.locator(".path").evaluate("node => node.textContent")] = width
        page.mouse.move(5, 5)
        expect(card).to_be_hidden()
    assert widths == dict.fromkeys(["a.png", "b.png", "c.png", "d.png", ATTACK], 80)
    # A click on a cluster selects its images, a second one clears the selection.
    cluster = page.locator(".legend .name").first
    cluster.click()
    expect(page.locator(".status")).to_have_text("2 of 5 images selected")
    cluster.click()
    expect(page.locator(".status")).to_have_text("5 images")
    page.evaluate("window.pointMap.moveTo(window.pointMap.coordinates[0], window.pointMap.coordinates[1])")
    expect(frame).to_have_attribute("data-thumbnails", re.compile(r"^([1-9])/\1$"))  # all of them are loaded
    page.locator(".layers summary").click()
    page.locator(".layers input[name=contours]").check()
    expect(frame).to_have_attribute("data-contours", "5")
    assert errors == []
    page.close()
