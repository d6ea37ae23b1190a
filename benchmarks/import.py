"""Speed and memory of the import: `python benchmarks/import.py FOLDER`.

1. Import of a folder at 96 px against parallel decoding and resizing of the same files by Pillow alone, with the same
   number of processes, alternately. Target: at most 1.3 times.
2. Peak anonymous memory above that of as many idle interpreters, for 20,000 generated images against 2,000. Target: at
   most 1.2 times. (Linux only: read from /proc.)
3. CPU time of the EXIF metadata and of the pixel statistics of each file, relative to decoding it to 160 px. Target for
   the metadata: at most 3 %.
"""

from __future__ import annotations

import io
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

from benchmarks.support import ROOT, create_parser, describe_machine, measure_seconds, read_anonymous_bytes, read_commit
from crlc.data.decode import decode_square, open_raw_image
from crlc.data.options import PHOTOGRAPH_SIZE, ImportOptions
from crlc.data.photo_metadata import read_photo_metadata
from crlc.data.pixel_statistics import measure_pixels
from crlc.subprocesses import count_available_cores
from crlc.workspace import Workspace

IMAGE_SIZE = 96
MAX_TIME_RATIO = 1.3
MAX_MEMORY_RATIO = 1.2
MAX_METADATA_FRACTION = 0.03
MEASURED_FILES = 300
POLL_SECONDS = 0.02


def decode_files(files: list[str]) -> int:
    """Decode, crop to the centre square and resize by Pillow alone; return the number of files."""
    for file in files:
        with Image.open(file) as image:
            width, height = image.size
            short = min(width, height)
            left, top = (width - short) / 2, (height - short) / 2
            box = (left, top, left + short, top + short)
            image.convert("RGB").resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC, box)
    return len(files)


def measure_pillow(files: list[str], processes: int) -> float:
    """Return the seconds for all files, including the start of the processes."""
    chunks = [files[start : start + 32] for start in range(0, len(files), 32)]

    def decode() -> None:
        with ProcessPoolExecutor(processes) as pool:
            sum(pool.map(decode_files, chunks))

    return measure_seconds(decode)


def measure_import(folder: Path, processes: int) -> float:
    """Return the seconds of a first import into an empty workspace."""
    with tempfile.TemporaryDirectory() as temporary:
        options = ImportOptions(size=IMAGE_SIZE, workers=processes)
        workspace = Workspace(Path(temporary))
        return measure_seconds(lambda: workspace.import_dataset(str(folder), name="benchmark", options=options))


def compare_speed(folder: Path, processes: int, repeats: int) -> bool:
    """Print the ratio of import to Pillow alone; return whether the target was met."""
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    measure_pillow(files, processes)  # reads the files into the page cache
    pillow, ours = [], []
    for _ in range(repeats):
        pillow.append(measure_pillow(files, processes))
        ours.append(measure_import(folder, processes))
    ratios = [mine / theirs for mine, theirs in zip(ours, pillow, strict=True)]
    print(f"{len(files):,} files, {processes} processes, {repeats} turns, medians:")
    print(f"  Pillow alone {statistics.median(pillow):.2f} s, import {statistics.median(ours):.2f} s")
    ratio = statistics.median(ratios)
    print(f"  ratio {ratio:.2f} (from {min(ratios):.2f} to {max(ratios):.2f}; target: {MAX_TIME_RATIO})")
    return ratio <= MAX_TIME_RATIO


def measure_idle_interpreter() -> int:
    """Return the anonymous memory of an idle Python process."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        time.sleep(0.5)
        count = read_anonymous_bytes(idle.pid)
        idle.communicate(b"\n")
    return count


def measure_peak(folder: Path, processes: int, baseline: int) -> int:
    """Return the peak anonymous memory of all processes of an import, minus that of as many idle interpreters."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [
            sys.executable,
            "-m",
            "crlc",
            "import",
            str(folder),
            "--workspace",
            temporary,
            "--workers",
            str(processes),
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
            parent = psutil.Process(running.pid)
            peak = 0
            while running.poll() is None:
                family = [parent, *parent.children(recursive=True)] if parent.is_running() else []
                peak = max(peak, sum(read_anonymous_bytes(process.pid) for process in family) - baseline * len(family))
                time.sleep(POLL_SECONDS)
        if running.returncode != 0:
            raise SystemExit("The import failed.")
    return peak


def generate_images(folder: Path, count: int) -> None:
    """Write small JPEG files, all different."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        stream = io.BytesIO()
        coarse = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((64, 64)).save(stream, "JPEG")
        (folder / f"{number:06d}.jpg").write_bytes(stream.getvalue())


def compare_memory(processes: int) -> bool:
    """Print the ratio of peak memory for ten times the images; return whether the target was met."""
    baseline = measure_idle_interpreter()
    peaks = {}
    with tempfile.TemporaryDirectory() as temporary:
        for count in (2_000, 20_000):
            generate_images(Path(temporary, str(count)), count)
            peaks[count] = measure_peak(Path(temporary, str(count)), processes, baseline)
            print(f"  {count:>6,} images: {peaks[count] / 1e6:.1f} MB above {processes + 1} idle interpreters")
    print(f"  ratio {peaks[20_000] / peaks[2_000]:.2f} (target: {MAX_MEMORY_RATIO})")
    return peaks[20_000] / peaks[2_000] <= MAX_MEMORY_RATIO


def compare_metadata(folder: Path) -> bool:
    """Print the CPU time of metadata and statistics relative to decoding; return whether the target was met."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    times = []
    for file in files[:: max(1, len(files) // MEASURED_FILES)]:
        raw, clock = file.read_bytes(), [time.process_time_ns()]
        with open_raw_image(raw) as image:
            decode_square(raw, PHOTOGRAPH_SIZE)
            clock.append(time.process_time_ns())
            read_photo_metadata(image)
            clock.append(time.process_time_ns())
        _, square = decode_square(raw, PHOTOGRAPH_SIZE)
        clock.append(time.process_time_ns())
        measure_pixels(square)
        clock.append(time.process_time_ns())
        times.append((clock[1] - clock[0], clock[2] - clock[1], clock[4] - clock[3]))
    decoding, metadata, statistics_ = (statistics.median(part) / 1e6 for part in zip(*times, strict=True))
    print(f"{len(times)} files, CPU time, medians: decoding {decoding:.2f} ms, EXIF {metadata:.3f} ms "
          f"({metadata / decoding:.1%}; target: {MAX_METADATA_FRACTION:.0%}), statistics {statistics_:.3f} ms "
          f"({statistics_ / decoding:.1%})")  # fmt: skip
    return bool(metadata <= MAX_METADATA_FRACTION * decoding)


def main() -> None:
    """Measure speed, memory and metadata."""
    parser = create_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder of photographs")
    parser.add_argument("--workers", type=int, default=count_available_cores())
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"commit {read_commit()}, {describe_machine()}")
    results = [compare_metadata(options.folder), compare_speed(options.folder, options.workers, options.repeats)]
    if sys.platform.startswith("linux"):
        results.append(compare_memory(options.workers))
    if not all(results):
        raise SystemExit("A target was missed.")


if __name__ == "__main__":
    main()
