"""The Label page in Chromium with many images: `python benchmarks/app_label.py [--images 100000] [--keys 30]`.

Writes a synthetic run as in `app.py`, starts the app on it, and labels images by keys in a browser, each as soon as the
page reports that the previous label is saved. The first opening compares every image with its neighbours, with a
progress bar. The target of one second is for all later actions: opening the page again, a key until the label is on
disk, other images.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.state.labelling import ALL_AT_ONCE
from benchmarks.app import FLAGS, Timings, make_run, run_app
from benchmarks.support import create_parser, measure_seconds
from tests.app.conftest import find_chromium

TARGET_SECONDS = 1.0
CURRENT_IMAGE = "window.crlcLabelDesk.at"
LARGE_IMAGE = ".frame img.large"


def wait_for_image(page: Page) -> None:
    """Wait for the image that is to be labelled."""
    page.locator(LARGE_IMAGE).first.wait_for(timeout=600_000)


def open_page(page: Page, url: str) -> None:
    """Open the Label page and wait for its first image."""
    page.goto(f"{url}/label")
    wait_for_image(page)


def press_key(page: Page, key: str) -> None:
    """Press a key and wait until the page reports that the label is saved."""
    page.keyboard.press(key)
    page.wait_for_function("window.crlcLabelDesk.pending.length === 0", polling=10)


def choose_cluster(page: Page, number: int) -> None:
    """Show the images of another cluster."""
    before = page.evaluate(CURRENT_IMAGE)
    page.get_by_test_id("stMain").get_by_role("combobox").first.click()
    page.get_by_role("option", name=re.compile(rf"Cluster {number}\b")).first.click()
    page.wait_for_function(f"{CURRENT_IMAGE} !== {before}", polling=10)
    wait_for_image(page)


def measure(url: str, keys: int) -> Timings:
    """Return the seconds of each action, several times."""
    found: Timings = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        found["first opening"] = [measure_seconds(lambda: open_page(page, url))]
        found["opening again"] = [measure_seconds(lambda: open_page(page, url)) for _ in range(4)]
        page.keyboard.press("n")
        page.keyboard.type("first")
        press_key(page, "Enter")
        found["key to saved"] = [measure_seconds(lambda: press_key(page, "1")) for _ in range(keys)]
        found["undo to saved"] = [measure_seconds(lambda: press_key(page, "z")) for _ in range(5)]
        found["another cluster"] = [measure_seconds(partial(choose_cluster, page, number)) for number in range(4)]
        found["key in a cluster"] = [measure_seconds(lambda: press_key(page, "1")) for _ in range(10)]
        started = time.perf_counter()
        page.get_by_text(ALL_AT_ONCE).click()
        page.locator(".tile").nth(59).wait_for()
        found["all at once"] = [time.perf_counter() - started]
        browser.close()
    return found


def main() -> int:
    """Create the run, start the app, measure, report."""
    parser = create_parser(__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), options.images)
        with run_app(Path(folder) / "workspace") as (url, _):
            found = measure(url, options.keys)
    print(f"{options.images:,} images")
    for name, values in found.items():
        print(f"{name:<18} median {statistics.median(values):.2f} s, worst {max(values):.2f} s")
    return int(
        any(statistics.median(values) > TARGET_SECONDS for name, values in found.items() if name != "first opening")
    )


if __name__ == "__main__":
    raise SystemExit(main())
