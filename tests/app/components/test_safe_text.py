"""Text from outside is shown without interpreting Markdown or HTML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.workspace.recent_folders import add_recent_folder
from tests.app.conftest import RunningApp
from tests.fixtures.browser import by_key, import_folder

pytestmark = pytest.mark.browser


def test_error_shows_a_hostile_path_as_text(page: Page):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    path = "/no/![picture](http://127.0.0.1:9/x.png) <img src=http://127.0.0.1:9/y.png> **bold** :material/home: $x$"
    import_folder(page, path)
    expect(page.get_by_role("alert")).to_contain_text(path)
    assert page.get_by_role("alert").locator("a, img, b, strong").count() == 0
    assert not [url for url in requested if ":9/" in url]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_button_shows_a_hostile_name_as_text(page: Page, app: RunningApp, tmp_path: Path):
    name = "Fotos *2024* [süß](x) `a` $b$ :smile: :material:home: :red[c] a->b <i> _d_ # ~~e~~"
    (tmp_path / name).mkdir()
    add_recent_folder(app.workspace, str(tmp_path / name))
    page.reload()
    button = by_key(page, "recent-0").get_by_role("button").last
    expect(button).to_be_visible()
    assert button.inner_text().replace("\u2060", "") == name
    assert button.locator("a, em, code, del, .katex").count() == 0
