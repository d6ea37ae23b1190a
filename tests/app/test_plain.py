"""Text from outside is shown as it is."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.app.test_start_page import import_folder


def test_a_hostile_path_is_shown_and_not_obeyed(page: Page):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    path = "/no/![picture](http://127.0.0.1:9/x.png) <img src=http://127.0.0.1:9/y.png> **bold** :material/home: $x$"
    import_folder(page, path)
    expect(page.get_by_role("alert")).to_contain_text(f"{path} does not exist.")
    assert page.get_by_role("alert").locator("a, img, b, strong").count() == 0
    assert not [url for url in asked if ":9/" in url]
