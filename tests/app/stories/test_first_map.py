"""The first minute in a real browser: photographs are imported, and their map appears and grows without a click."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from crlc.services.exploration import read_exploration
from tests.app.conftest import RunningApp
from tests.fixtures.browser import import_and_explore

pytestmark = [pytest.mark.browser, pytest.mark.slow]

IMAGES = 600
"""More than those of the first part of a preview, 500."""

MAX_PROGRESS_PIXELS = 64
"""Height of the progress that lies over the map."""

RECORD_TOPS = """() => {
  window.tops = new Set();
  window.tallest = 0;
  setInterval(() => {
    const map = document.querySelector('.st-key-explore-map');
    const isDrawn = document.querySelector("[data-testid='stApp'][data-test-script-state='notRunning']");
    const progress = document.querySelector('.st-key-preview-progress');
    if (map && progress) window.tallest = Math.max(window.tallest, progress.offsetHeight);
    if (map && isDrawn) window.tops.add(Math.round(map.getBoundingClientRect().top));
  }, 100);
}"""
PREVIEW_TIMEOUT_MS = 480_000
"""Enough for a preview on a busy computer."""


def save_photographs(folder: Path) -> None:
    """Save coloured gradients of three kinds, larger than small images are."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    y, x = np.mgrid[:72, :72] / 72
    for number in range(IMAGES):
        kind = number % 3
        base = np.stack([(x, y, x * y), (y, 1 - x, x), (1 - y, x * x, 1 - x)][kind], axis=2)
        pixels = 200 * base + generator.uniform(0, 55, (72, 72, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:04d}.jpg")


def test_map_of_photographs_appears_and_grows_without_a_click(page: Page, app: RunningApp, tmp_path: Path):
    save_photographs(tmp_path / "photos")
    import_and_explore(page, tmp_path / "photos")
    page.evaluate(RECORD_TOPS)
    # First the images in the order of their files, unless the map is faster; then a map of all images.
    first_images = page.get_by_test_id("stMain").locator("img")
    expect(first_images.or_(page.locator(".map")).first).to_be_visible()
    # The notice covers no controls.
    expect(page.get_by_test_id("stSidebar").get_by_text(f"Imported {IMAGES} images")).to_be_visible()
    expect(page.locator(".map").first).to_have_attribute("data-drawn", str(IMAGES), timeout=PREVIEW_TIMEOUT_MS)
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    # The map stays where it is while progress comes and goes.
    assert page.get_by_test_id("stToast").count() == 0
    assert page.evaluate("[...window.tops].length") == 1, page.evaluate("[...window.tops]")
    assert page.evaluate("window.tallest") <= MAX_PROGRESS_PIXELS  # it hides little of the map
    found = read_exploration(app.workspace.open_dataset("photos"))
    assert found is not None
    assert not found.is_partial
    assert len(found.ids) == IMAGES
    assert page.get_by_test_id("stException").count() == 0
