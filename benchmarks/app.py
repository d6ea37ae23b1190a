"""The app in Chromium: `python benchmarks/app.py [--only map lasso frame images gallery ...] [--images 100000]`.

Writes a synthetic run (ten clusters, a map, small images), starts the app on it, and uses it in a headless browser.
Times are measured in the browser, from the click to the frame in which all new images are decoded. Targets; all but the
last on an idle computer:

map       from the address to the drawn map: 3 s
lasso     from releasing the pointer to the gallery of the selected images: 1 s
frame     one frame while the map is panned and zoomed, with names and images: 0.05 s; without them for comparison,
          interleaved, over the whole map and zoomed in
images    from the end of zooming in or panning to all images on the map: 0.5 s
gallery   next page of 60 images: 0.5 s
memory    growth of the server over 200 pages, after 20 to warm up: 50 MB
training  opening an image, next page and another order, while a run started on the Train page uses the processor: 1 s
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.view_models.cluster_view import LEAST_CONFIDENT, MOST_CONFIDENT
from benchmarks.support import ROOT, create_parser, describe_machine, read_commit
from crlc.analysis.maps.settings import MapSettings, get_map_path, write_map
from crlc.runs.results import get_maps_folder
from crlc.runs.state import RunState
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from crlc.workspace.example import decline_example
from crlc.workspace.runs import RunStore

CLUSTERS, IMAGE_SIZE = 10, 16
TURNS, WARM_UP_PAGES = 12, 20
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
Timings = dict[str, list[float]]
TARGETS = {"map": 3.0, "lasso": 1.0, "frame": 0.05, "images": 0.5, "gallery": 0.5, "memory": 50.0, "training": 1.0}
FIND_MAP = "[...document.querySelectorAll('*')].map(one => one.shadowRoot?.pointMap).find(Boolean)"
FRAMES_SCRIPT = f"""async ([layers, zoom]) => {{
  const map = {FIND_MAP};
  for (const name of ['names', 'images']) map.layers.isOn[name] = layers;
  map.showAll();
  const row = 0; // a point inside a cluster
  Object.assign(map.view, {{ x: map.coordinates[2 * row], y: map.coordinates[2 * row + 1] }});
  if (zoom > 1) map.zoom(zoom);
  const next = () => new Promise(requestAnimationFrame);
  const isLoaded = () => (([one, all]) => one === all)(map.frame.dataset.thumbnails.split('/'));
  const before = performance.now();
  for (await next(); !isLoaded() && performance.now() - before < 60000; await next());
  const seconds = [];
  for (let step = 0; step < 60; step++) {{
    map.move(4 * Math.cos(step / 5), 4 * Math.sin(step / 5));
    map.zoom(step % 20 < 10 ? 1.01 : 1 / 1.01);
    const started = performance.now();
    await next();
    seconds.push((performance.now() - started) / 1000);
  }}
  return seconds;
}}"""
IMAGES_SCRIPT = f"""async ([row, zoom]) => {{
  const map = {FIND_MAP};
  Object.assign(map.layers.isOn, {{ names: true, images: true }});
  const next = () => new Promise(requestAnimationFrame);
  map.showAll();
  for (let frame = 0; frame < 3; frame++) await next();
  Object.assign(map.view, {{ x: map.coordinates[2 * row], y: map.coordinates[2 * row + 1] }});
  const started = performance.now();
  map.zoom(zoom);
  let shown = [0, 0];
  while (!shown[1] || shown[0] < shown[1]) {{
    await next();
    if (performance.now() - started > 60000) throw new Error(`images: ${{map.frame.dataset.thumbnails}}`);
    shown = map.frame.dataset.thumbnails.split('/').map(Number);
  }}
  return [(performance.now() - started) / 1000, shown[1]];
}}"""
ZOOM = 48.0
"""Zoom from which points of 100,000 images are shown as images."""

MEASURE_SCRIPT = """what => {
  const roots = part => [...part.querySelectorAll('*')].map(one => one.shadowRoot).filter(Boolean);
  const find = (part, what) => roots(part).map(root => root.querySelector(what)).find(Boolean);
  const readState = () => {
    const dialog = document.querySelector('[role=dialog]');
    const grid = find(what === 'dialog' ? dialog ?? document.createElement('div') : document, '.gallery');
    const images = [...grid?.querySelectorAll('.tile img') ?? [], ...what === 'dialog' && dialog
      ? dialog.querySelectorAll('img') : []];
    const titles = [...grid?.querySelectorAll('.tile') ?? []].map(tile => tile.title).join();
    return { images, titles, chosen: find(document, '.map')?.dataset.chosen };
  };
  const before = readState();
  const isNew = now => now.titles && now.titles !== before.titles && (what !== 'lasso' || now.chosen !== before.chosen);
  let started = null;
  const kind = what === 'lasso' ? 'pointerup' : 'click';
  addEventListener(kind, event => started = event.timeStamp, { capture: true, once: true });
  window.measured = new Promise((resolve, reject) => {
    setTimeout(reject, 60000, new Error(`${what} did not appear within a minute`));
    const poll = async () => {
      const now = readState();
      const isThere = started !== null && isNew(now) && now.images.every(one => one.complete && one.naturalWidth);
      if (!isThere) return setTimeout(poll, 10);
      await Promise.all(now.images.map(one => one.decode()));
      requestAnimationFrame(() => resolve((performance.now() - started) / 1000));
    };
    poll();
  });
}"""


def make_run(folder: Path, count: int) -> str:
    """Create a workspace with one dataset and one synthetic run; return the run id."""
    random = np.random.default_rng(0)
    classes = random.integers(0, CLUSTERS, count)
    prototypes = random.integers(0, 255, (CLUSTERS, IMAGE_SIZE, IMAGE_SIZE))
    images = np.clip(prototypes[classes] + random.normal(0, 30, (count, IMAGE_SIZE, IMAGE_SIZE)), 0, 255).astype(
        np.uint8
    )
    np.savez(folder / "many.npz", images=images, labels=classes)
    workspace = Workspace(folder / "workspace")
    dataset, _ = workspace.import_dataset(str(folder / "many.npz"))
    decline_example(workspace)
    ids = np.arange(1, count + 1)
    run = RunStore(workspace).create(dataset, ids, TrainSettings().replace(clusters=CLUSTERS), "quick", "cpu")
    cluster = np.where(random.random(count) < 0.9, classes, random.integers(0, CLUSTERS, count)).astype(np.int32)
    confidence = random.uniform(0.5, 1, count).astype(np.float32)
    q = np.repeat(((1 - confidence) / (CLUSTERS - 1))[:, None], CLUSTERS, axis=1)
    q[np.arange(count), cluster] = confidence
    z = (random.normal(size=(CLUSTERS, 64))[classes] + random.normal(0, 0.4, (count, 64))).astype(np.float32)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    result = run.create_result_folder(1)
    arrays: dict[str, NDArray[Any]] = {"ids": ids, "q": q, "z": z, "cluster": cluster, "confidence": confidence}
    for name, array in arrays.items():
        np.save(result / f"{name}.npy", array)
    run.publish_result(result, {"subhead": 0, "final": True})
    run.write_status(RunState.FINISHED, epoch=1, epochs=1, step=1)
    get_maps_folder(run).mkdir()
    coordinates = random.normal(0, 6, (CLUSTERS, 2))[classes] + random.normal(0, 1, (count, 2))
    path = get_map_path(get_maps_folder(run), run.open_result()[0]["z"], MapSettings("umap"))
    write_map(path, coordinates.astype(np.float32))
    return run.id


@contextmanager
def run_app(workspace: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start a server; yield its address and process. Ends the server and the runs that it started."""
    command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(workspace)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=20)
        for run in map(RunStore(Workspace(workspace)).open, RunStore(Workspace(workspace)).list_ids()):
            status = run.read_status()
            if status.state == RunState.RUNNING and status.pid is not None:  # runs continue without the app
                psutil.Process(status.pid).kill()


class ExplorePage:
    """The Explore page in a browser, with all images of the run."""

    def __init__(self, browser: Browser, url: str, run: str, count: int) -> None:
        """Open the page."""
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 800})
        self._url, self._address, self._count = url, f"{url}/explore?dataset=many&run={run}", count
        self.open()

    def open(self) -> float:
        """Open the page; return the seconds until the map is drawn."""
        started = time.perf_counter()
        self.page.goto(self._address)
        self.page.locator(f".map[data-drawn='{self._count}']").first.wait_for(timeout=120_000)
        seconds = time.perf_counter() - started
        self.page.locator(".tile img[src]").nth(59).wait_for(state="attached", timeout=120_000)
        self.page.wait_for_load_state("networkidle")
        return seconds

    def measure(self, what: str, act: Callable[[], object]) -> float:
        """Return the seconds from an action until its result is visible."""
        self.page.evaluate(MEASURE_SCRIPT, what)
        act()
        return float(self.page.evaluate("window.measured"))

    def turn_page(self) -> float:
        """Show the next page of the gallery."""
        return self.measure("gallery", self.page.get_by_role("button", name="Next").click)

    def change_order(self, to: str) -> float:
        """Change the order of the gallery."""
        self.page.locator(".st-key-explore-order input").click()
        return self.measure("gallery", self.page.get_by_role("option", name=to.capitalize()).click)

    def open_image(self, index: int) -> float:
        """Open an image with its neighbours, and close it."""
        seconds = self.measure("dialog", self.page.get_by_test_id("stMain").locator(".tile").nth(index).click)
        self.page.keyboard.press("Escape")
        self.page.get_by_role("dialog").wait_for(state="hidden")
        return seconds

    def draw_lasso(self, turn: int) -> float:
        """Draw a lasso around a part of the map that depends on the turn."""
        box = self.page.locator(".map canvas").first.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] * (0.35 + 0.04 * (turn % 8)), box["y"] + box["height"] / 2
        mouse, radius = self.page.mouse, 90
        self.page.keyboard.down("Shift")
        mouse.move(x + radius, y)
        mouse.down()
        for step in range(1, 60):
            mouse.move(x + radius * math.cos(step / 9.6), y + radius * math.sin(step / 9.6))
        self.page.keyboard.up("Shift")
        return self.measure("lasso", mouse.up)

    def measure_frames(self, *, layers: bool, zoom: float) -> list[float]:
        """Return the seconds of each frame while the map moves; `layers` for names and images."""
        return [float(one) for one in self.page.evaluate(FRAMES_SCRIPT, [layers, zoom])]

    def show_images(self, row: int) -> tuple[float, int]:
        """Zoom in on a point; return the seconds until the images around it are shown, and their number."""
        seconds, count = self.page.evaluate(IMAGES_SCRIPT, [row, ZOOM])
        return float(seconds), int(count)

    def start_training(self, workspace: Workspace, own: str) -> None:
        """Start a run by the button of the Train page; return when its first metrics are written."""
        self.page.goto(f"{self._url}/train?dataset=many&run={own}")
        self.page.get_by_role("button", name="Start training").click()
        until = time.monotonic() + 600
        while time.monotonic() < until:
            for name in RunStore(workspace).list_ids():
                if name != own and (workspace.root / "runs" / name / "metrics.jsonl").exists():
                    return
            time.sleep(0.5)
        raise SystemExit("The run did not start within ten minutes.")


def measure(
    page: ExplorePage, parts: list[str], server: psutil.Process, pages: int, start: Callable[[], None]
) -> Timings:
    """Return the seconds of each action, several times, and the growth of the server in MB."""
    found: Timings = {}
    if "map" in parts:
        found["map"] = [page.open() for _ in range(6)]
    if "lasso" in parts:
        found["lasso"] = [page.draw_lasso(turn) for turn in range(8)]
        page.open()
    if "frame" in parts:
        for _ in range(3):
            for name, zoom in (("whole map", 1.0), ("zoomed in", ZOOM)):
                for layers in (True, False):
                    title = f"frame: {name}{'' if layers else ', points only'}"
                    found.setdefault(title, []).extend(page.measure_frames(layers=layers, zoom=zoom))
        found["frame"] = [*found["frame: whole map"], *found["frame: zoomed in"]]
    if "images" in parts:
        shown = [page.show_images(997 * turn) for turn in range(TURNS)]
        found["images"] = [seconds for seconds, _ in shown]
        print(f"images per view: {min(count for _, count in shown)} to {max(count for _, count in shown)}")
    if "gallery" in parts:
        found["gallery"] = [page.turn_page() for _ in range(3 * TURNS)]
    if "memory" in parts:
        for _ in range(WARM_UP_PAGES):
            page.turn_page()
        before = server.memory_info().rss
        for _ in range(pages):
            page.turn_page()
        found["memory"] = [(server.memory_info().rss - before) / 1e6]
    if "training" in parts:
        start()
        page.open()
        orders = [(LEAST_CONFIDENT, MOST_CONFIDENT)[turn % 2] for turn in range(TURNS)]
        found["training: image"] = [page.open_image(turn) for turn in range(TURNS)]
        found["training: page"] = [page.turn_page() for _ in range(TURNS)]
        found["training: order"] = [page.change_order(order) for order in orders]
        found["training"] = [seconds for name in found if name.startswith("training: ") for seconds in found[name]]
    return found


def print_report(found: Timings) -> bool:
    """Print each median with its target; return whether all targets are met."""
    all_met = True
    for name, values in found.items():
        median, target = statistics.median(values), TARGETS.get(name)
        unit, digits = ("MB", 1) if name == "memory" else ("s", 3 if name.startswith("frame") else 2)
        spread = "" if len(values) == 1 else f", {min(values):.2f} to {max(values):.2f} in {len(values)}"
        verdict = "" if target is None else f" (target {target:g} {unit}: {'met' if median < target else 'MISSED'})"
        all_met &= target is None or median < target
        print(f"{name:<30} {median:.{digits}f} {unit}{spread}{verdict}")
    return all_met


def main() -> int:
    """Create the run, start the app, measure, report."""
    parser = create_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), options.images)
        workspace = Workspace(Path(folder) / "workspace")
        with run_app(workspace.root) as (url, server), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            load = f", load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
            machine = f"{describe_machine()}{load}, Chromium {browser.version}"
            print(f"{options.images:,} images, {machine}, commit {read_commit()}")
            page = ExplorePage(browser, url, run, options.images)
            start = partial(page.start_training, workspace, run)
            found = measure(page, options.only, server, options.pages, start)
            browser.close()
    return 0 if print_report(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
