"""Text from outside is shown without interpreting Markdown or HTML."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.fixtures.browser import import_folder

pytestmark = pytest.mark.browser


def test_error_shows_a_hostile_path_as_text(page: Page):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    path = "/no/![picture](http://127.0.0.1:9/x.png) <img src=http://127.0.0.1:9/y.png> **bold** :material/home: $x$"
    import_folder(page, path)
    expect(page.get_by_role("alert")).to_contain_text(path)
    assert page.get_by_role("alert").locator("a, img, b, strong").count() == 0
    assert not [url for url in requested if ":9/" in url]
