"""The app in Chromium: `python benchmarks/app.py [--only map lasso gallery memory training] [--images 100000]`.

A run is written by hand (ten clusters, a map, small pictures), the app is started on it, and a browser without a
screen does what people do. Times are taken in the browser, from the click to the frame in which all new images are
decoded. Bars; all but the last on an idle computer:

map       from the address to the drawn map: 3 s
lasso     from letting go to the gallery of the images inside: 1 s
gallery   turning the page of 60 images: 0.5 s
memory    what the server grows by over 200 pages, after 20 to warm up: 50 MB
training  opening an image, turning the page, another order while a training that was started on the Train page
          takes what it can get: 1 s
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.map_settings import MapSettings, map_file, write_map
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from crlc.workspace.run_files import maps_folder
from crlc.workspace.runs import Runs
from crlc.workspace.sample import decline_sample

ROOT = Path(__file__).resolve().parents[1]
CLUSTERS, SIDE = 10, 16
TURNS, WARM_UP = 12, 20
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
BARS = {"map": 3.0, "lasso": 1.0, "gallery": 0.5, "memory": 50.0, "training": 1.0}
WATCH = """what => {
  const roots = part => [...part.querySelectorAll('*')].map(one => one.shadowRoot).filter(Boolean);
  const find = (part, what) => roots(part).map(root => root.querySelector(what)).find(Boolean);
  const scene = () => {
    const dialog = document.querySelector('[role=dialog]');
    const grid = find(what === 'dialog' ? dialog ?? document.createElement('div') : document, '.gallery');
    const images = [...grid?.querySelectorAll('.tile img') ?? [], ...what === 'dialog' && dialog
      ? dialog.querySelectorAll('img') : []];
    const titles = [...grid?.querySelectorAll('.tile') ?? []].map(tile => tile.title).join();
    return { images, titles, chosen: find(document, '.map')?.dataset.chosen };
  };
  const before = scene();
  const isNew = now => now.titles && now.titles !== before.titles && (what !== 'lasso' || now.chosen !== before.chosen);
  let started = null;
  const kind = what === 'lasso' ? 'pointerup' : 'click';
  addEventListener(kind, event => started = event.timeStamp, { capture: true, once: true });
  window.measured = new Promise(resolve => {
    const look = async () => {
      const now = scene();
      const isThere = started !== null && isNew(now) && now.images.every(one => one.complete && one.naturalWidth);
      if (!isThere) return setTimeout(look, 10);
      await Promise.all(now.images.map(one => one.decode()));
      requestAnimationFrame(() => resolve((performance.now() - started) / 1000));
    };
    look();
  });
}"""


def make_run(folder: Path, count: int) -> str:
    """A workspace with one data set and one run that was never trained; returns the run's id."""
    random = np.random.default_rng(0)
    classes = random.integers(0, CLUSTERS, count)
    looks = random.integers(0, 255, (CLUSTERS, SIDE, SIDE))
    images = np.clip(looks[classes] + random.normal(0, 30, (count, SIDE, SIDE)), 0, 255).astype(np.uint8)
    np.savez(folder / "many.npz", images=images, labels=classes)
    workspace = Workspace(folder / "workspace")
    dataset, _ = workspace.import_dataset(str(folder / "many.npz"))
    decline_sample(workspace)
    ids = np.arange(1, count + 1)
    run = Runs(workspace).create(dataset, ids, TrainSettings(clusters=CLUSTERS), "quick", "cpu")
    cluster = np.where(random.random(count) < 0.9, classes, random.integers(0, CLUSTERS, count)).astype(np.int32)
    sure = random.uniform(0.5, 1, count).astype(np.float32)
    q = np.repeat(((1 - sure) / (CLUSTERS - 1))[:, None], CLUSTERS, axis=1)
    q[np.arange(count), cluster] = sure
    z = (random.normal(size=(CLUSTERS, 64))[classes] + random.normal(0, 0.4, (count, 64))).astype(np.float32)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    result = run.new_result_folder(1)
    for name, array in {"ids": ids, "q": q, "z": z, "cluster": cluster, "confidence": sure}.items():
        np.save(result / f"{name}.npy", array)
    run.publish_result(result, {"subhead": 0, "final": True})
    run.write_status("finished", epoch=1, epochs=1, step=1)
    maps_folder(run).mkdir()
    places = random.normal(0, 6, (CLUSTERS, 2))[classes] + random.normal(0, 1, (count, 2))
    write_map(map_file(maps_folder(run), run.result()[0]["z"], MapSettings("umap")), places.astype(np.float32))
    return run.id


@contextmanager
def running_app(workspace: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a server of its own, and its process; trainings that it started end with it."""
    command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(workspace)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield (
            next(word for word in process.stdout.readline().split() if word.startswith("http")),
            psutil.Process(process.pid),
        )
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(20)
        for child in children:
            if child.is_running():
                child.kill()


class Scene:
    """A browser on Explore with all images of the run."""

    def __init__(self, browser: Browser, url: str, run: str, count: int) -> None:
        """Open the page."""
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 800})
        self._url, self._address, self._count = url, f"{url}/explore?dataset=many&run={run}", count
        self.open()

    def open(self) -> float:
        """Go to Explore; seconds until the map is drawn."""
        started = time.perf_counter()
        self.page.goto(self._address)
        self.page.locator(f".map[data-drawn='{self._count}']").first.wait_for(timeout=120_000)
        seconds = time.perf_counter() - started
        self.page.locator(".tile img[src]").nth(59).wait_for(state="attached", timeout=120_000)
        self.page.wait_for_load_state("networkidle")
        return seconds

    def timed(self, what: str, act: Callable[[], object]) -> float:
        """Seconds from an act until what it brings is there."""
        self.page.evaluate(WATCH, what)
        act()
        return float(self.page.evaluate("window.measured"))

    def turn_page(self) -> float:
        """To the next page."""
        return self.timed("gallery", self.page.get_by_role("button", name="Next").click)

    def change_order(self, to: str) -> float:
        """Sort otherwise."""
        return self.timed("gallery", self.page.get_by_role("radio", name=to).locator("..").click)

    def look_at(self, place: int) -> float:
        """Open an image with its neighbours, and close it again."""
        seconds = self.timed("dialog", self.page.get_by_test_id("stMain").locator(".tile").nth(place).click)
        self.page.keyboard.press("Escape")
        self.page.get_by_role("dialog").wait_for(state="hidden")
        return seconds

    def lasso(self, turn: int) -> float:
        """Around another part of the map each time."""
        box = self.page.locator(".map canvas").first.bounding_box()
        x, y = box["x"] + box["width"] * (0.35 + 0.04 * (turn % 8)), box["y"] + box["height"] / 2
        mouse, radius = self.page.mouse, 90
        self.page.keyboard.down("Shift")
        mouse.move(x + radius, y)
        mouse.down()
        for step in range(1, 60):
            mouse.move(x + radius * math.cos(step / 9.6), y + radius * math.sin(step / 9.6))
        self.page.keyboard.up("Shift")
        return self.timed("lasso", mouse.up)

    def start_training(self, workspace: Workspace, own: str) -> None:
        """By the button of the Train page; returns when its first numbers are there."""
        self.page.goto(f"{self._url}/train?dataset=many&run={own}")
        self.page.get_by_role("button", name="Start training").click()
        until = time.monotonic() + 600
        while time.monotonic() < until:
            for name in Runs(workspace).ids():
                if name != own and (workspace.root / "runs" / name / "metrics.jsonl").exists():
                    return
            time.sleep(0.5)
        raise SystemExit("The training did not begin in ten minutes.")


def measure(scene: Scene, parts: list[str], server: psutil.Process, pages: int, start: Callable[[], None]) -> dict:
    """Seconds of each act, several times; and the server's growth in MB."""
    found: dict[str, list[float]] = {}
    if "map" in parts:
        found["map"] = [scene.open() for _ in range(6)]
    if "lasso" in parts:
        found["lasso"] = [scene.lasso(turn) for turn in range(8)]
        scene.open()
    if "gallery" in parts:
        found["gallery"] = [scene.turn_page() for _ in range(3 * TURNS)]
    if "memory" in parts:
        for _ in range(WARM_UP):
            scene.turn_page()
        before = server.memory_info().rss
        for _ in range(pages):
            scene.turn_page()
        found["memory"] = [(server.memory_info().rss - before) / 1e6]
    if "training" in parts:
        start()
        scene.open()
        orders = [("least sure", "most sure")[turn % 2] for turn in range(TURNS)]
        found["training: image"] = [scene.look_at(turn) for turn in range(TURNS)]
        found["training: page"] = [scene.turn_page() for _ in range(TURNS)]
        found["training: order"] = [scene.change_order(order) for order in orders]
        found["training"] = [seconds for name in found if name.startswith("training: ") for seconds in found[name]]
    return found


def report(found: dict[str, list[float]]) -> bool:
    """Print each figure with its bar; returns whether all are kept."""
    kept = True
    for name, values in found.items():
        middle, bar = statistics.median(values), BARS.get(name)
        unit, digits = ("MB", 1) if name == "memory" else ("s", 2)
        spread = "" if len(values) == 1 else f", {min(values):.2f} to {max(values):.2f} in {len(values)}"
        verdict = "" if bar is None else f" (bar {bar:g} {unit}: {'kept' if middle < bar else 'MISSED'})"
        kept &= bar is None or middle < bar
        print(f"{name:<16} {middle:.{digits}f} {unit}{spread}{verdict}")
    return kept


def main() -> int:
    """Make, start, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(BARS), default=list(BARS))
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), options.images)
        workspace = Workspace(Path(folder) / "workspace")
        with running_app(workspace.root) as (url, server), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            load = f", load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
            machine = f"{platform.machine()}, {os.cpu_count()} cores{load}, Python {platform.python_version()}"
            print(f"{options.images:,} images, {machine}, Chromium {browser.version}, commit {commit.strip()}")
            scene = Scene(browser, url, run, options.images)
            start = lambda: scene.start_training(workspace, run)  # noqa: E731
            found = measure(scene, options.only, server, options.pages, start)
            browser.close()
    return 0 if report(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
