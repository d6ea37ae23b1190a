"""The map and the gallery in Chromium: `python benchmarks/app_map.py [--images 100000] [--pages 200]`.

A run is written by hand (ten clusters, a map, small pictures), the app is started on it, and a browser without a
screen opens Explore, draws lassos and turns pages. Bars, on an idle computer: map drawn in 3 s, lasso to gallery with
all its images in 1 s, page of 60 images in 0.5 s, the server's memory grows by less than 50 MB over 200 pages.
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
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

CLUSTERS, SIDE = 10, 16
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
BARS = {"map drawn": 3.0, "lasso to gallery": 1.0, "gallery page": 0.5}
GROWTH_BAR_MB = 50
SHADOWS = "[...document.querySelectorAll('*')].map(one => one.shadowRoot).filter(Boolean)"
ALL_THERE = f"""before => {{
  const roots = {SHADOWS};
  const find = what => roots.map(root => root.querySelector(what)).find(Boolean);
  const grid = find('.gallery');
  return find('.map').dataset.chosen + grid?.querySelector('.tile')?.title !== before
    && [...grid.querySelectorAll('img')].every(image => image.complete && image.naturalWidth);
}}"""
STATE = f"""() => {{
  const roots = {SHADOWS};
  const find = what => roots.map(root => root.querySelector(what)).find(Boolean);
  return find('.map').dataset.chosen + find('.tile')?.title;
}}"""
FRAMES = f"""async () => {{
  const map = {SHADOWS}.map(root => root.pointMap).find(Boolean);
  const began = performance.now();
  let frames = 0;
  for (; performance.now() - began < 2000; frames++) {{
    map.move(Math.sin(frames) * 3, 1);
    await new Promise(requestAnimationFrame);
  }}
  return frames / 2;
}}"""


def make_run(folder: Path, count: int) -> None:
    """A workspace with one data set and one run that was never trained."""
    from crlc.analysis.map_settings import MapSettings, map_file, write_map
    from crlc.training.settings import TrainSettings
    from crlc.workspace import Workspace
    from crlc.workspace.run_files import maps_folder
    from crlc.workspace.runs import Runs

    random = np.random.default_rng(0)
    classes = random.integers(0, CLUSTERS, count)
    looks = random.integers(0, 255, (CLUSTERS, SIDE, SIDE))
    images = np.clip(looks[classes] + random.normal(0, 30, (count, SIDE, SIDE)), 0, 255).astype(np.uint8)
    np.savez(folder / "many.npz", images=images, labels=classes)
    workspace = Workspace(folder / "workspace")
    dataset, _ = workspace.import_dataset(str(folder / "many.npz"))
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
    kept = run.result()[0]["z"]
    write_map(map_file(maps_folder(run), kept, MapSettings("umap")), places.astype(np.float32))


def changed(page: Page, act: object) -> float:
    """Seconds from an act until map or gallery show something else and all images are there."""
    before = page.evaluate(STATE)
    started = time.perf_counter()
    act()
    page.wait_for_function(ALL_THERE, arg=before, timeout=60_000, polling=20)
    return time.perf_counter() - started


def draw_lasso(page: Page, radius: float) -> object:
    """Everything but letting go, which is what is returned."""
    box = page.locator(".map canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.keyboard.down("Shift")
    page.mouse.move(x + radius, y)
    page.mouse.down()
    for step in range(1, 60):
        page.mouse.move(x + radius * math.cos(step / 9.6), y + radius * math.sin(step / 9.6))
    page.keyboard.up("Shift")
    return page.mouse.up


def measure(url: str, count: int, pages: int, server: psutil.Process) -> dict[str, list[float]]:
    """Seconds of each act, several times; and the server's growth in MB."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    found: dict[str, list[float]] = {"map drawn": [], "lasso to gallery": [], "gallery page": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        for _ in range(6):
            started = time.perf_counter()
            page.goto(f"{url}/explore")
            page.locator(f".map[data-drawn='{count}']").first.wait_for(timeout=120_000)
            found["map drawn"].append(time.perf_counter() - started)
        page.wait_for_load_state("networkidle")
        for turn in range(8):
            found["lasso to gallery"].append(changed(page, draw_lasso(page, 80 + 8 * turn)))
        found["frames per second"] = [page.evaluate(FRAMES)]
        before = server.memory_info().rss
        for turn in range(pages):
            if turn == min(20, pages // 2):
                before = server.memory_info().rss  # what is kept from then on does not grow
            found["gallery page"].append(changed(page, page.get_by_role("button", name="Next").click))
        found["server grew, MB"] = [(server.memory_info().rss - before) / 1e6]
        browser.close()
    return found


def main() -> int:
    """Make, start, measure, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), options.images)
        command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(Path(folder) / "workspace")]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
            found = measure(url, options.images, options.pages, psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(20)
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{options.images:,} images, {os.cpu_count()} cores, {load} {platform.machine()}")
    failed = False
    for name, values in found.items():
        if name in BARS:
            middle = statistics.median(values[1:] if name == "map drawn" else values)
            failed |= middle > BARS[name]
            others = f"first {values[0]:.2f} s, worst {max(values):.2f} s"
            print(f"{name:<20} median {middle:.2f} s, {others} (bar {BARS[name]} s)")
        else:
            print(f"{name:<20} {values[0]:.1f}")
    return int(failed or found["server grew, MB"][0] > GROWTH_BAR_MB)


if __name__ == "__main__":
    raise SystemExit(main())
