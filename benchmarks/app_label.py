"""The Label page in Chromium with many images: `python benchmarks/app_label.py [--images 100000] [--keys 30]`.

A run is written by hand as in `app.py`, the app is started on it, and a browser labels by keys as fast as the page
says that each is saved. The first opening compares every image with its neighbours, which the page shows as a bar; the
bar of a second is for what comes after it: opening the page again, a key until it is on the disk, other images.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.app import FLAGS, make_run, running_app  # noqa: E402
from tests.app.conftest import find_chromium  # noqa: E402

BAR = 1.0
AT = "window.crlcLabelDesk.at"
LARGE = ".frame img.large"


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def is_shown(page: Page) -> None:
    """Wait for the image that is to be labelled."""
    page.locator(LARGE).first.wait_for(timeout=600_000)


def open_page(page: Page, url: str) -> None:
    """From nothing to the first image."""
    page.goto(f"{url}/label")
    is_shown(page)


def press(page: Page, key: str) -> None:
    """A key, until the page says that it is saved."""
    page.keyboard.press(key)
    page.wait_for_function("window.crlcLabelDesk.pending.length === 0", polling=10)


def choose_cluster(page: Page, number: int) -> None:
    """The images of another cluster."""
    before = page.evaluate(AT)
    page.get_by_role("combobox", name="Which images").click()
    page.get_by_role("option", name=f"Cluster {number}: least sure first").click()
    page.wait_for_function(f"{AT} !== {before}", polling=10)
    is_shown(page)


def measure(url: str, keys: int) -> dict[str, list[float]]:
    """Seconds of each act."""
    found: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        found["first opening"] = [seconds(lambda: open_page(page, url))]
        found["opening again"] = [seconds(lambda: open_page(page, url)) for _ in range(4)]
        page.keyboard.press("n")
        page.keyboard.type("first")
        press(page, "Enter")
        found["key to saved"] = [seconds(lambda: press(page, "1")) for _ in range(keys)]
        found["undo to saved"] = [seconds(lambda: press(page, "z")) for _ in range(5)]
        found["another cluster"] = [seconds(lambda number=number: choose_cluster(page, number)) for number in range(4)]
        found["key in a cluster"] = [seconds(lambda: press(page, "1")) for _ in range(10)]
        started = time.perf_counter()
        page.get_by_text("All at once").click()
        page.locator(".tile").nth(59).wait_for()
        found["all at once"] = [time.perf_counter() - started]
        browser.close()
    return found


def main() -> int:
    """Make, start, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), options.images)
        with running_app(Path(folder) / "workspace") as (url, _):
            found = measure(url, options.keys)
    print(f"{options.images:,} images")
    for name, values in found.items():
        print(f"{name:<18} median {statistics.median(values):.2f} s, worst {max(values):.2f} s")
    return int(any(statistics.median(values) > BAR for name, values in found.items() if name != "first opening"))


if __name__ == "__main__":
    raise SystemExit(main())
