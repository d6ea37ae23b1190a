"""The Train page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.jobs.job_file import JobFile
from tests.app.conftest import RunningApp
from tests.fixtures.browser import button, by_key, text_box
from tests.fixtures.images import save_images
from tests.fixtures.prepared_app import SUGGESTED_CLUSTERS

pytestmark = pytest.mark.browser


@pytest.fixture
def app_module() -> str:
    return "tests.fixtures.prepared_app"


def test_suggested_cluster_count_is_used_for_training(page: Page, app: RunningApp, tmp_path: Path):
    save_images(tmp_path / "set", 12)
    app.workspace.import_dataset(str(tmp_path / "set"))
    page.goto(f"{app.url}/train")
    expect(text_box(page, "train-clusters-set")).to_have_value("10")
    button(page, "suggest-count").click()
    button(page, "count-use").click()
    expect(text_box(page, "train-clusters-set")).to_have_value(str(SUGGESTED_CLUSTERS))
    button(page, "start-training").click()
    stop = by_key(page, "live-run").locator("button:visible", has_text=re.compile("Stop|Cancel")).first
    expect(stop).to_be_visible(timeout=60_000)
    (job,) = JobFile(app.workspace.root).read_jobs()
    assert job.arguments[:4] == ("train", "set", "--clusters", str(SUGGESTED_CLUSTERS))
    stop.click()
    ended = by_key(page, "live-run").locator("button:visible", has_text=re.compile("Resume|Try again|Explore"))
    expect(ended.first).to_be_visible(timeout=60_000)
