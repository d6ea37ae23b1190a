"""The exported map in a real browser, from the disk and offline."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from crlc.export.html_map import write_html_map
from tests.export.test_html_map import ATTACK, create_export, dataset, run  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser


def test_exported_map_shows_image_and_escaped_name_on_hover(browser: Browser, run, dataset, tmp_path: Path):  # noqa: F811
    write_html_map(create_export(run, dataset), tmp_path / "map.html")
    page = browser.new_page(viewport={"width": 1000, "height": 700}, offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.goto((tmp_path / "map.html").as_uri())
    points = page.locator("#map .points path")
    expect(points).to_have_count(5)
    assert page.locator(".legendtext").first.evaluate("node => node.textContent") == "0 </script><b>bold</b> (2)"
    widths = {}
    for number in range(5):
        points.nth(number).hover(force=True)
        expect(page.locator("#card")).to_be_visible()
        width = page.locator("#card img").evaluate("async image => (await image.decode(), image.naturalWidth)")
        widths[page.locator("#card .name").evaluate("node => node.textContent")] = width
        page.mouse.move(5, 5)
        expect(page.locator("#card")).to_be_hidden()
    assert widths == dict.fromkeys(["a.png", "b.png", "c.png", "d.png", ATTACK], 80)
    assert errors == []
    page.close()
