"""Screenshots of the README: `python docs/make_screenshots.py` (about four minutes; needs tests/requirements.txt).

Starts the app on a new workspace, as on a first start, and saves a screenshot of each page. The pages show the example;
the Train page shows a new run on the digits. `--photographs` makes the one of photographs instead, which needs
`pip install scikit-image`: see photographs.py.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.data.image_lookup import read_paths
from crlc.services.analyse_run import RunAnalysis
from crlc.workspace import Workspace
from docs.photographs import NAMES, PHOTOGRAPHS, save_photographs
from tests.app.conftest import CHROMIUM_FLAGS, end_app, find_chromium, start_app
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 800
LABELS = 12
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TIMEOUT_MS = 120_000
SETTLE_MS = 3000


def show_explore(page: Page) -> None:
    """Open the map and the gallery."""
    page.get_by_role("link", name="Explore").click()
    expect(page.locator(".map").first).to_have_attribute("data-drawn", "1797")
    expect(page.locator(".tile").first).to_be_visible()


def show_neighbours(page: Page) -> None:
    """Open an image with its neighbours."""
    page.locator(".tile").nth(5).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def show_clusters(page: Page) -> None:
    """Open the cards of the clusters."""
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Clusters").click()
    expect(page.get_by_text("cluster 9", exact=False).first).to_be_visible()


def show_label(page: Page) -> None:
    """Label some images by keyboard with the names of their digits."""
    page.get_by_role("link", name="Label").click()
    name_field = page.get_by_placeholder("N: find or add a name")
    expect(name_field).to_be_visible()
    digits = load_digits().target
    for reviewed in range(1, LABELS + 1):
        file_name = page.locator(".path").first.inner_text()
        page.keyboard.press("n")
        name_field.fill(DIGITS[digits[int(file_name)]])
        name_field.press("Enter")
        expect(page.get_by_text(f"{reviewed} of 36")).to_be_visible()
    expect(page.locator(".saved")).to_contain_text("Saved")


def show_export(page: Page) -> None:
    """Open the preview of a table."""
    page.get_by_role("link", name="Export").click()
    expect(page.get_by_text("of 1,797 rows")).to_be_visible()


def show_train(page: Page) -> None:
    """Start a run and wait for its curves."""
    page.get_by_role("link", name="Start").click()
    page.get_by_role("button", name="Try the sample data").click()
    expect(page.get_by_text(re.compile(r"Epoch [2-5]\d of")).first).to_be_visible()  # the page may skip an epoch


def train_photographs(workspace: Workspace, folder: Path) -> None:
    """Import and cluster the photographs, and name each cluster after what most of its images show."""
    save_photographs(folder)
    dataset, _ = workspace.import_dataset(str(folder))
    environment = {**os.environ, "CRLC_WORKSPACE": str(workspace.root)}
    photographs = sum(map(len, PHOTOGRAPHS.values()))
    command = [sys.executable, "-m", "crlc", "train", dataset.name, "--clusters", str(photographs)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    analysis = RunAnalysis.open(workspace, "last")
    stems = {image: path.rpartition("-")[0] for image, path in read_paths(dataset, analysis.ids)}
    with AnnotationStore(dataset) as annotations:
        editor = ClusterEditor(annotations, analysis.clustering)
        for cluster in range(photographs):
            found = Counter(stems[image] for image in analysis.ids[analysis.clusters == cluster].tolist())
            (stem, _), *_ = found.most_common(1)
            editor.set_name(cluster, NAMES.get(stem, stem))


def show_photographs(page: Page) -> None:
    """Open the cards of the clusters of photographs."""
    page.get_by_role("link", name="Clusters").click()
    expect(page.get_by_text("% confidence", exact=False).first).to_be_visible()


SCREENSHOTS_OF_PHOTOGRAPHS: dict[str, Callable[[Page], None]] = {"photographs": show_photographs}
SCREENSHOTS: dict[str, Callable[[Page], None]] = {
    "explore": show_explore,
    "neighbours": show_neighbours,
    "clusters": show_clusters,
    "label": show_label,
    "export": show_export,
    "train": show_train,
}


def save_screenshot(page: Page, name: str, folder: Path) -> None:
    """Save a small PNG file after the page has finished loading."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(SETTLE_MS)
    screenshot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    screenshot.save(folder / f"{name}.png", optimize=True)
    print(f"{name}.png: {(folder / f'{name}.png').stat().st_size // 1024} kB", flush=True)


def main() -> None:
    """Save all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--photographs", action="store_true", help="the screenshot of photographs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=TIMEOUT_MS)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        workspace = Workspace(Path(temporary, "workspace"))
        if options.photographs:
            train_photographs(workspace, Path(temporary, "photographs"))
        process, url = start_app(workspace, example=not options.photographs)
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_FLAGS))
        try:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_default_timeout(TIMEOUT_MS)
            page.goto(url)
            expect(page.get_by_text("photographs" if options.photographs else "Example: 1,797").first).to_be_visible()
            for name, show in (SCREENSHOTS_OF_PHOTOGRAPHS if options.photographs else SCREENSHOTS).items():
                show(page)
                save_screenshot(page, name, options.out)
        finally:
            browser.close()
            end_app(process)


if __name__ == "__main__":
    main()
