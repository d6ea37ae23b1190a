"""From a folder to a first map: `python benchmarks/first_map.py scenes/ [--turns 3]`.

Times, from the start of the import in a process that has already loaded its modules, until (a) the first images can be
shown, (b) the first map exists, of a part of the images, (c) the UMAP map of all images with provisional clusters
exists, (d) a run is trained, (e) its CSV file is written. Compares (c) with the same steps written by hand in one
script: Pillow, the same network with timm and torch (channels-last), k-means of scikit-learn, umap-learn. Both run in
separate processes with an empty workspace, alternately; the converted backbone is in the cache, as after the first use.
With --fiftyone PYTHON, the interpreter of an environment that has FiftyOne, its turn follows (`fiftyone_map.py`).
Targets: (a) within 3 s, (b) within 10 s, (c) at most 0.4 of the script by hand and of FiftyOne. With --growth, times
(a) and (b) for 1,000 to 30,000 hard links of the same files instead, with the peak memory of the process; target: an
exponent of 1.05.
"""

from __future__ import annotations

import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, read_commit

IMAGE_SIZE, BATCH_IMAGES = 160, 64
SUFFIXES = (".jpg", ".jpeg", ".png")
GROWTH_IMAGES = (1_000, 3_000, 10_000, 30_000)
STEPS = {"a": "first images", "b": "first map", "c": "UMAP and clusters", "d": "trained", "e": "CSV"}


def run_ours(folder: Path) -> dict[str, float]:
    """Return the seconds until each step, with the services that the app calls."""
    import torch  # noqa: F401  (loaded before the time is measured, as in a running server)
    import umap  # noqa: F401

    from crlc.analysis.maps.settings import MapSettings
    from crlc.cli.main import main as crlc
    from crlc.progress import Progress
    from crlc.services.exploration import read_exploration
    from crlc.services.explore import ExplorationSettings, explore_dataset
    from crlc.workspace import Workspace

    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(Path(temporary))
        started = time.perf_counter()

        def note(step: str) -> None:
            seconds.setdefault(step, time.perf_counter() - started)

        def watch(_: Progress) -> None:
            if "b" not in seconds and read_exploration(dataset) is not None:
                note("b")

        dataset, _ = workspace.import_dataset(str(folder))
        note("a")
        explore_dataset(workspace, dataset, ExplorationSettings(map=MapSettings("pca")), store_parts=True, report=watch)
        note("b")
        explore_dataset(workspace, dataset, ExplorationSettings(map=MapSettings("umap")))
        note("c")
        options = ["--workspace", temporary]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = crlc(["train", dataset.name, *options])
            note("d")
            code += crlc(["export", "last", "--out", str(Path(temporary, "result.csv")), *options])
            note("e")
        if code:
            raise SystemExit("crlc train or export failed.")
    return seconds


class _FirstMapExistsError(Exception):
    """Ends an exploration after its first part."""


def run_to_first_map(folder: Path) -> dict[str, float]:
    """Return the seconds until the first images and the first map, and the peak memory in megabytes."""
    import torch

    from crlc.analysis.maps.settings import MapSettings
    from crlc.progress import Progress
    from crlc.services.exploration import read_exploration
    from crlc.services.explore import ExplorationSettings, explore_dataset
    from crlc.training.device import measure_peak_memory_mb
    from crlc.workspace import Workspace

    def stop_after_first_part(_: Progress) -> None:
        if read_exploration(dataset) is not None:
            raise _FirstMapExistsError

    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(Path(temporary))
        started = time.perf_counter()
        dataset, _ = workspace.import_dataset(str(folder))
        imported = time.perf_counter() - started
        settings = ExplorationSettings(map=MapSettings("pca"))
        with suppress(_FirstMapExistsError):
            explore_dataset(workspace, dataset, settings, store_parts=True, report=stop_after_first_part)
        seconds = time.perf_counter() - started
    return {"a": imported, "b": seconds, "mb": measure_peak_memory_mb(torch.device("cpu"))}


def measure_growth(folder: Path) -> None:
    """Print the time to the first map for growing folders of hard links."""
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)
    print("| images | (a) first images, s | (b) first map, s | peak memory, MB |\n|---|---|---|---|")
    seconds = []
    for count in GROWTH_IMAGES:
        with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as temporary:
            for number in range(count):
                source = files[number % len(files)]
                try:
                    Path(temporary, f"{number:06d}{source.suffix}").hardlink_to(source)
                except OSError:  # another file system
                    shutil.copy(source, Path(temporary, f"{number:06d}{source.suffix}"))
            found = run_in_process("growth", Path(temporary))
        seconds.append(found["b"])
        print(f"| {count:,} | {found['a']:.1f} | {found['b']:.1f} | {found['mb']:.0f} |", flush=True)
    slope = np.polyfit(np.log(GROWTH_IMAGES), np.log(seconds), 1)[0]
    print(f"exponent of (b): {slope:.2f} (target 1.05)")


def run_by_hand(folder: Path) -> dict[str, float]:
    """Return the seconds until the map, as a script does it."""
    import timm
    import torch
    from PIL import Image
    from sklearn.cluster import KMeans
    from umap import UMAP

    from crlc.model.pretrained import load_pretrained

    started = time.perf_counter()
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval().to(memory_format=torch.channels_last)
    network.load_state_dict(load_pretrained("default").module.state_dict(), strict=False)
    features = []
    for start in range(0, len(files), BATCH_IMAGES):
        batch = []
        for file in files[start : start + BATCH_IMAGES]:
            image = Image.open(file).convert("RGB")
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            square = image.crop((left, top, left + side, top + side)).resize((IMAGE_SIZE, IMAGE_SIZE))
            batch.append(np.asarray(square))
        pixels = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).float().sub(127).div(128)
        with torch.inference_mode():
            features.append(network(pixels.contiguous(memory_format=torch.channels_last)).numpy())
    vectors = np.concatenate(features)
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    KMeans(10, n_init=5, random_state=0).fit_predict(vectors)
    UMAP(metric="cosine", random_state=0).fit_transform(vectors)
    return {"c": time.perf_counter() - started}


def run_in_process(which: str, folder: Path, interpreter: str = sys.executable) -> dict[str, float]:
    """Return the seconds that a separate process measures."""
    command = [interpreter, __file__, str(folder), "--only", which]
    if which == "FiftyOne":
        command = [interpreter, str(Path(__file__).with_name("fiftyone_map.py")), str(folder)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise SystemExit(outcome.stderr)
    found: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = create_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--fiftyone", metavar="PYTHON", help="interpreter of an environment that has FiftyOne")
    parser.add_argument(
        "--only", choices=("ours", "hand", "growth"), help="run one of them in this process, and print JSON"
    )
    options = parser.parse_args()
    if options.only:
        run = {"ours": run_ours, "hand": run_by_hand, "growth": run_to_first_map}[options.only]
        print(json.dumps(run(options.folder)))
        return
    print(f"{options.folder.name}, {options.turns} turns, {describe_machine()}, commit {read_commit()}")
    if options.growth:
        measure_growth(options.folder)
        return
    run_in_process("ours", options.folder)  # converts the backbone and compiles UMAP once
    others = {"hand": sys.executable} | ({"FiftyOne": options.fiftyone} if options.fiftyone else {})
    turns = []
    for _ in range(options.turns):
        turn = {"ours": run_in_process("ours", options.folder)}
        turns.append(turn | {name: run_in_process(name, options.folder, python) for name, python in others.items()})
    print("| until | median, s | turns |\n|---|---|---|")
    for step, title in STEPS.items():
        print_row(f"({step}) {title}", [turn["ours"][step] for turn in turns])
    for name in others:
        print_row(f"(c) {name}", [turn[name]["c"] for turn in turns])
        print_row(f"ratio of (c) to {name}, target 0.4", [turn["ours"]["c"] / turn[name]["c"] for turn in turns], 2)


def print_row(title: str, values: list[float], decimals: int = 1) -> None:
    """Print a row of the table: median and all turns."""
    turns = ", ".join(f"{value:.{decimals}f}" for value in values)
    print(f"| {title} | {statistics.median(values):.{decimals}f} | {turns} |", flush=True)


if __name__ == "__main__":
    main()
