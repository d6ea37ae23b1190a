"""The pictures in the README: `python docs/make_screenshots.py` (about two minutes; needs tests/requirements.txt).

Starts the app on a workspace of its own, as on a first start, and takes each page with the example in it; Train while
the digits are being trained.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from crlc.workspace import Workspace  # noqa: E402
from tests.app.conftest import CHROMIUM_FLAGS, end_app, find_chromium, start_app  # noqa: E402

FOLDER = ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
NAMES = {"5": "five", "3": "three", "0": "zero"}
PATIENCE = 120_000
SETTLED_MS = 3000


def explore(page: Page) -> None:
    """The map, one cluster in the gallery."""
    page.get_by_role("link", name="Explore").click()
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "1797")
    expect(page.locator(".tile").first).to_be_visible()


def neighbours(page: Page) -> None:
    """An image with those most like it."""
    page.locator(".tile").nth(5).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def clusters(page: Page) -> None:
    """The cards."""
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Clusters").click()
    expect(page.get_by_text("cluster 9", exact=False).first).to_be_visible()


def label(page: Page) -> None:
    """A few images labelled by keyboard."""
    page.get_by_role("link", name="Label").click()
    box = page.get_by_placeholder("N: find or add a name")
    expect(box).to_be_visible()
    for name in NAMES.values():
        page.keyboard.press("n")
        box.fill(name)
        box.press("Enter")
    for key in "12312":
        page.keyboard.press(key)
    expect(page.get_by_text("8 of 36 images decided")).to_be_visible()
    expect(page.locator(".saved")).to_contain_text("saved")


def export(page: Page) -> None:
    """The preview of a table."""
    page.get_by_role("link", name="Export").click()
    expect(page.get_by_text("1,797 rows of which")).to_be_visible()


def train(page: Page) -> None:
    """Live curves."""
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="Try the digits").click()
    expect(page.get_by_text("Epoch 20", exact=False).first).to_be_visible()


PICTURES: dict[str, Callable[[Page], None]] = {
    "explore": explore,
    "neighbours": neighbours,
    "clusters": clusters,
    "label": label,
    "export": export,
    "train": train,
}


def save(page: Page, name: str, folder: Path) -> None:
    """A small PNG, once everything has come to rest."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(SETTLED_MS)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(folder / f"{name}.png", optimize=True)
    print(f"{name}.png: {(folder / f'{name}.png').stat().st_size // 1024} kB", flush=True)


def main() -> None:
    """Take all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        process, url = start_app(Workspace(Path(place)), example=True)
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        try:
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(PATIENCE)
            page.goto(url)
            expect(page.get_by_text("Example: 1,797 handwritten digits")).to_be_visible()
            for name, show in PICTURES.items():
                show(page)
                save(page, name, options.out)
        finally:
            browser.close()
            end_app(process)


if __name__ == "__main__":
    main()
