"""The example in a real browser: installed at the first start, explored, exported and deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.runs.maps import load_any_map
from crlc.runs.results import read_result
from crlc.services.export import FORMATS
from crlc.workspace import Workspace
from crlc.workspace.example import EXAMPLE_RUN
from crlc.workspace.runs import RunStore
from tests.app.conftest import ARTIFACTS, WAIT_MS, end_app, start_app
from tests.fixtures.browser import button, by_key, open_page
from tests.fixtures.exported_tables import read_assignments

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def download_export(page: Page, key: str, folder: Path) -> Path:
    """Select a format on the Export page, and download the file; return its path."""
    page.get_by_text(FORMATS[key].title, exact=True).click()
    download_button = page.get_by_role("button", name="Download digits-Example")
    expect(download_button).to_have_text(f"Download digits-Example{FORMATS[key].suffix}")
    with page.expect_download() as download:
        download_button.click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    expect(page.get_by_role("status").get_by_text(f"{file.name} (")).to_be_visible()  # with its size
    return file


def test_example_is_installed_at_the_first_start_and_can_be_exported(
    browser: Browser, workspace: Workspace, tmp_path: Path, request: pytest.FixtureRequest
):
    process, url = start_app(workspace, example=True)

    def kill_server() -> None:
        process.kill()  # the latest one; nothing happens if it has ended

    request.addfinalizer(kill_server)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(WAIT_MS)
    page.goto(url)
    expect(page.get_by_text("Example: 1,797 handwritten digits, already clustered")).to_be_visible()
    button(page, "explore-digits").click()
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "1797")
    expect(page.locator(".tile").first).to_be_visible()

    open_page(page, "Export")
    expect(page.get_by_text("12 of 1,797 rows")).to_be_visible()
    run = RunStore(workspace).open(EXAMPLE_RUN)
    arrays = read_result(run).arrays
    rows = list(read_assignments(download_export(page, "csv", tmp_path)))
    by_id = {row.image_id: row for row in rows}
    assert sorted(by_id) == arrays["ids"].tolist()
    assert [by_id[number].cluster for number in arrays["ids"].tolist()] == arrays["cluster"].tolist()
    np.testing.assert_allclose([by_id[n].confidence for n in arrays["ids"].tolist()], arrays["confidence"], rtol=1e-6)
    np.testing.assert_allclose([by_id[n].map_x for n in arrays["ids"].tolist()], load_any_map(run, arrays["z"])[:, 0])
    assert {row.run for row in rows} == {EXAMPLE_RUN}

    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "export.png")
    html = download_export(page, "html", tmp_path)
    requested: list[str] = []
    map_page = browser.new_page()
    map_page.on("request", lambda one: requested.append(one.url))
    map_page.goto(html.as_uri())
    expect(map_page.get_by_role("application", name="Map of the images")).to_be_visible()
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []
    map_page.close()

    # An export that is not possible shows its error beside the button.
    run.checkpoint_file.unlink()
    page.get_by_text("Trained model", exact=True).click()
    page.get_by_role("button", name="Download digits-Example.crlc").click()
    expect(page.get_by_role("alert").get_by_text("has no checkpoint")).to_be_visible()

    # A deleted example is not installed again.
    open_page(page, "Start")
    by_key(page, "remove-box-digits").get_by_role("button").first.click()
    button(page, "remove-digits").click()
    expect(by_key(page, "dataset-digits")).to_be_hidden()
    end_app(process)
    process, url = start_app(workspace, example=True)
    page.goto(url)
    expect(page.get_by_test_id("stAlert")).to_be_visible()  # no datasets yet
    expect(by_key(page, "dataset-digits")).to_be_hidden()
    assert workspace.list_dataset_names() == []
    assert RunStore(workspace).list_ids() == []
    page.close()
    end_app(process)
