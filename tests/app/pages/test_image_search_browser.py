"""Search by image on the Explore page in a real browser: chosen, pasted and dropped files, and a bad file."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from crlc.analysis.maps.settings import MapSettings
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.training.presets import FROZEN_HEADS
from tests.app.conftest import RunningApp
from tests.fixtures.browser import by_key
from tests.fixtures.tiny_run import import_tiny_dataset

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEND_FILE = """([kind, name, content]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: "image/png" }));
  const options = { bubbles: true, cancelable: true };
  document.body.dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", { clipboardData: data, ...options })
    : new DragEvent(kind, { dataTransfer: data, ...options }));
}"""


def send(page: Page, kind: str, file: Path) -> None:
    """Paste a file, drag it over the page, or drop it."""
    page.evaluate(SEND_FILE, [kind, file.name, b64encode(file.read_bytes()).decode()])


def test_search_by_image_lists_similar_images_and_marks_the_place(page: Page, app: RunningApp, tmp_path: Path):
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    network = FROZEN_HEADS.replace(image_size=48)
    explore_dataset(app.workspace, dataset, ExplorationSettings(3, MapSettings("umap"), network=network))
    page.goto(f"{app.url}/explore?dataset=set")
    expect(page.locator(".tile")).to_have_count(12)

    # A file that is no image: its name is shown as text, and nothing else changes.
    broken = {"name": "<b>notes</b>.png", "mimeType": "image/png", "buffer": b"not an image"}
    chooser = by_key(page, "image-drop").locator("input[type=file]")
    chooser.set_input_files(broken)
    alert = by_key(page, "map-progress").get_by_role("alert")
    expect(alert).to_contain_text("<b>notes</b>.png is not a readable image")
    expect(page.locator(".chip")).to_have_count(0)

    # A pasted copy of an image: the image itself is first. The error of the last search is gone.
    send(page, "paste", tmp_path / "set" / "b" / "00001.png")
    chip = page.locator(".chip")
    expect(chip).to_contain_text("similar to 00001.png: cluster")
    expect(page.locator(".tile").first).to_have_attribute("title", re.compile("^b/00001.png"))
    expect(page.locator("figcaption").first).to_have_text("similarity 1.00")
    expect(page.locator(".marker")).to_contain_text("00001.png: cluster")
    expect(alert).to_have_count(0)
    chip.click()
    expect(chip).to_have_count(0)
    expect(page.locator(".marker")).to_be_hidden()

    # Files are dropped anywhere on the page.
    over = page.get_by_text("Drop an image to find similar ones")
    send(page, "dragover", tmp_path / "set" / "c" / "00002.png")
    expect(over).to_be_visible()
    send(page, "drop", tmp_path / "set" / "c" / "00002.png")
    expect(over).to_be_hidden()
    expect(chip).to_contain_text("similar to 00002.png")
    expect(page.locator(".tile").first).to_have_attribute("title", re.compile("^c/00002.png"))
    assert not list(app.workspace.root.rglob("uploads")), "the file is not stored"
