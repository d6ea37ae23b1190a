"""The first start in a real browser: an example to look at within seconds, and to take away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from crlc.workspace import Workspace
from crlc.workspace.export.tables import read_assignments
from crlc.workspace.run_files import read_result
from crlc.workspace.run_maps import kept_map
from crlc.workspace.runs import Runs
from crlc.workspace.sample import SAMPLE_RUN
from tests.app.conftest import ARTIFACTS, end_app, start_app


def downloaded(page: Page, format: str, folder: Path) -> Path:
    """Choose a format on the Export page, and press the button."""
    page.get_by_text(format, exact=True).click()
    button = page.get_by_role("button", name="Download digits-example")
    ending = {"CSV table": ".csv", "Map as a web page": ".html"}[format]
    expect(button).to_have_text(f"Download digits-example{'-map' if ending == '.html' else ''}{ending}")
    with page.expect_download() as download:
        button.click()
    place = folder / download.value.suggested_filename
    download.value.save_as(place)
    expect(page.get_by_role("status").get_by_text(f"{place.name}, ")).to_be_visible()  # its name and size
    return place


def test_an_example_is_there_within_seconds_and_can_be_taken_away(
    browser: Browser, workspace: Workspace, tmp_path: Path, request: pytest.FixtureRequest
):
    expect.set_options(timeout=20_000)  # a busy computer is no failure
    process, url = start_app(workspace, example=True)
    request.addfinalizer(lambda: process.poll() is None and process.kill())
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(30_000)
    page.goto(url)
    expect(page.get_by_text("Example: 1,797 handwritten digits, already clustered")).to_be_visible()
    page.get_by_role("button", name="Explore").click()
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "1797", timeout=30_000)
    expect(page.locator(".tile").first).to_be_visible()

    page.get_by_role("link", name="Export").click()
    expect(page.get_by_text("1,797 rows of which these are the first 12")).to_be_visible()
    run = Runs(workspace).open(SAMPLE_RUN)
    arrays = read_result(run).arrays
    rows = list(read_assignments(downloaded(page, "CSV table", tmp_path)))
    by_id = {row.image_id: row for row in rows}
    assert sorted(by_id) == arrays["ids"].tolist()
    assert [by_id[number].cluster for number in arrays["ids"].tolist()] == arrays["cluster"].tolist()
    np.testing.assert_allclose([by_id[n].confidence for n in arrays["ids"].tolist()], arrays["confidence"], rtol=1e-6)
    np.testing.assert_allclose([by_id[n].map_x for n in arrays["ids"].tolist()], kept_map(run, arrays["z"])[:, 0])
    assert {row.run for row in rows} == {SAMPLE_RUN}

    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "export.png")
    html = downloaded(page, "Map as a web page", tmp_path)
    elsewhere: list[str] = []
    alone = browser.new_page()
    alone.on("request", lambda asked: asked.url.startswith(("file:", "data:", "blob:")) or elsewhere.append(asked.url))
    alone.goto(html.as_uri())
    expect(alone.locator(".js-plotly-plot")).to_be_visible()
    assert elsewhere == []
    alone.close()

    # What cannot be had is said beside the button, and the page stays.
    (run.checkpoint_file).unlink()
    page.get_by_text("Trained model", exact=True).click()
    page.get_by_role("button", name="Download digits-example.crlc").click()
    expect(page.get_by_role("alert").get_by_text("has no checkpoint yet")).to_be_visible()

    # Whoever removes it does not get it back.
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("Its 1 run goes with it.")).to_be_visible()
    page.get_by_role("button", name="Remove for good").click()
    expect(page.get_by_text("No images here yet")).to_be_visible()
    end_app(process)
    process, url = start_app(workspace, example=True)
    page.goto(url)
    expect(page.get_by_text("No images here yet")).to_be_visible()
    assert workspace.dataset_names() == []
    assert Runs(workspace).ids() == []
    page.close()
    end_app(process)
