"""The exported map in a real browser, from the disk and offline."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from crlc.workspace.export.html_map import write_html_map
from tests.workspace.test_export_html import ATTACK, dataset, exported, run  # noqa: F401  (fixtures)


def test_hovering_shows_the_picture_and_names_as_text(browser: Browser, run, dataset, tmp_path: Path):  # noqa: F811
    write_html_map(exported(run, dataset), tmp_path / "map.html")
    page = browser.new_page(viewport={"width": 1000, "height": 700}, offline=True)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.goto((tmp_path / "map.html").as_uri())
    points = page.locator("#map .points path")
    expect(points).to_have_count(5)
    assert page.locator(".legendtext").first.evaluate("node => node.textContent") == "0 </script><b>bold</b> (2)"
    seen = {}
    for number in range(5):
        points.nth(number).hover(force=True)
        expect(page.locator("#card")).to_be_visible()
        size = page.locator("#card img").evaluate("async image => (await image.decode(), image.naturalWidth)")
        seen[page.locator("#card .name").evaluate("node => node.textContent")] = size
        page.mouse.move(5, 5)
        expect(page.locator("#card")).to_be_hidden()
    assert seen == dict.fromkeys(["a.png", "b.png", "c.png", "d.png", ATTACK], 80)
    assert troubles == []
    page.close()
