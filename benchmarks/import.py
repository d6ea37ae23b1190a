"""How fast and how lean the import is: `python benchmarks/import.py FOLDER`.

1. The import of a folder at 96 px against a bare parallel decode and resize of the same files by Pillow,
   with as many processes, in turns, in one run. Bar: at most 1.3 times.
2. Peak anonymous memory above that of as many bare interpreters, for 20,000 generated images against
   2,000. Bar: at most 1.2 times. (Linux only: read from /proc.)
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.config import ImportOptions, available_cores
from crlc.workspace import Workspace

SIZE = 96
SPEED_BAR = 1.3
MEMORY_BAR = 1.2
SECONDS_BETWEEN_LOOKS = 0.02


def bare_decode(files: list[str]) -> int:
    """What Pillow alone does with the files: decode, centre square, resize."""
    for file in files:
        with Image.open(file) as image:
            width, height = image.size
            short = min(width, height)
            left, top = (width - short) / 2, (height - short) / 2
            box = (left, top, left + short, top + short)
            image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BICUBIC, box)
    return len(files)


def time_bare(files: list[str], processes: int) -> float:
    """Seconds for all files, the start of the processes included."""
    started = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        sum(pool.map(bare_decode, [files[start : start + 32] for start in range(0, len(files), 32)]))
    return time.perf_counter() - started


def time_import(folder: Path, processes: int) -> float:
    """Seconds for a first import into an empty workspace, everything included."""
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        options = ImportOptions(size=SIZE, workers=processes)
        Workspace(Path(place)).import_dataset(str(folder), name="benchmark", options=options)
        return time.perf_counter() - started


def compare_speed(folder: Path, processes: int, repeats: int) -> bool:
    """Print the ratio of import to bare decoding; returns whether the bar was reached."""
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    time_bare(files, processes)  # files into the page cache
    bare, ours = [], []
    for _ in range(repeats):
        bare.append(time_bare(files, processes))
        ours.append(time_import(folder, processes))
    ratios = [mine / theirs for mine, theirs in zip(ours, bare, strict=True)]
    print(f"{len(files):,} files, {processes} processes, {repeats} turns, medians:")
    print(f"  bare decode {statistics.median(bare):.2f} s, import {statistics.median(ours):.2f} s")
    print(f"  ratio {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f}; bar: {SPEED_BAR})")
    return statistics.median(ratios) <= SPEED_BAR


def anonymous_bytes(process: psutil.Process) -> int:
    """RssAnon of one process; 0 once it is gone."""
    try:
        text = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("RssAnon")), "RssAnon: 0 kB")
    return int(line.split()[1]) * 1024


def bare_interpreter_bytes() -> int:
    """RssAnon of a Python that does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        time.sleep(0.5)
        count = anonymous_bytes(psutil.Process(idle.pid))
        idle.communicate(b"\n")
    return count


def peak_above_baseline(folder: Path, processes: int, baseline: int) -> int:
    """Highest sum of RssAnon over all processes of an import, less that of as many bare interpreters."""
    with tempfile.TemporaryDirectory() as place:
        command = [
            sys.executable,
            "-m",
            "crlc",
            "import",
            str(folder),
            "--workspace",
            place,
            "--workers",
            str(processes),
        ]
        root = Path(__file__).resolve().parents[1]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            parent = psutil.Process(running.pid)
            peak = 0
            while running.poll() is None:
                family = [parent, *parent.children(recursive=True)] if parent.is_running() else []
                peak = max(peak, sum(map(anonymous_bytes, family)) - baseline * len(family))
                time.sleep(SECONDS_BETWEEN_LOOKS)
        if running.returncode != 0:
            raise SystemExit("the import failed")
    return peak


def generate(folder: Path, count: int) -> None:
    """Small JPEGs, all different."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        stream = io.BytesIO()
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((64, 64)).save(stream, "JPEG")
        (folder / f"{number:06d}.jpg").write_bytes(stream.getvalue())


def compare_memory(processes: int) -> bool:
    """Print the ratio of peak memory for ten times the images; returns whether the bar was reached."""
    baseline = bare_interpreter_bytes()
    peaks = {}
    with tempfile.TemporaryDirectory() as place:
        for count in (2_000, 20_000):
            generate(Path(place, str(count)), count)
            peaks[count] = peak_above_baseline(Path(place, str(count)), processes, baseline)
            print(f"  {count:>6,} images: {peaks[count] / 1e6:.1f} MB above {processes + 1} bare interpreters")
    print(f"  ratio {peaks[20_000] / peaks[2_000]:.2f} (bar: {MEMORY_BAR})")
    return peaks[20_000] / peaks[2_000] <= MEMORY_BAR


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of photographs")
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    print(f"commit {commit.strip() or 'unknown'}, {machine}")
    reached = [compare_speed(options.folder, options.workers, options.repeats)]
    if sys.platform.startswith("linux"):
        reached.append(compare_memory(options.workers))
    if not all(reached):
        raise SystemExit("a bar was not reached")


if __name__ == "__main__":
    main()
