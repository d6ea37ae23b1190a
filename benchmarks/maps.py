"""UMAP on our neighbour graph against umap-learn alone: `python benchmarks/maps.py [--images 60000]`.

Both use the same seed and settings (15 neighbours, cosine; ours 120 epochs, umap-learn its default of 200), alternately
and each in a separate process. Loading and compilation are not measured. Trustworthiness at 15 is computed on a common
subsample, because it needs a matrix of all distances. Targets: at most 0.7 of the time, trustworthiness at most 0.02
lower.

`python benchmarks/maps.py --start [--images 4000] [--turns 3]` measures a small map with the start of its process
instead: umap-learn in a new process, our map in a new process (cold), and in a process that was prepared in advance
(warm; the CPU seconds include the preparation). Target: at most 6 s for 4,000 images.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, make_features
from crlc.arrays import Features

TRUSTWORTHINESS_ROWS = 3000
SEED = 0
MAX_TIME_RATIO, MAX_TRUST_LOSS = 0.7, 0.02
DEFAULT_IMAGES, DEFAULT_SMALL_IMAGES = 60_000, 4_000
SMALL_DIMENSIONS, SMALL_CLUSTERS, SMALL_DEVIATION = 256, 12, 4.0
MAX_START_SECONDS = 6
PREPARE_SECONDS = 5


def measure_map(which: str, features: Path, target: Path) -> None:
    """Print the seconds of a map and save it; runs in a separate process."""
    import warnings

    warnings.simplefilter("ignore")
    from umap import UMAP

    from crlc.analysis.maps.projections import compute_umap_map

    z = np.load(features, mmap_mode="r")

    def compute(rows: Features) -> Features:
        if which == "ours":
            return compute_umap_map(rows, seed=SEED)
        found: Features = UMAP(metric="cosine", random_state=SEED).fit_transform(rows)
        return found

    compute(np.ascontiguousarray(z[:5000]))  # compiles
    rows = np.ascontiguousarray(z)
    started = time.perf_counter()
    coordinates = compute(rows)
    print(time.perf_counter() - started)
    np.save(target, coordinates)


def compute_with_umap_learn(features: Path, target: Path) -> None:
    """Compute the map of a file with umap-learn on our neighbour graph, as earlier versions did."""
    import warnings

    warnings.simplefilter("ignore")
    from crlc.analysis.maps.projections import UMAP_NEIGHBOURS, compute_pca_map
    from crlc.analysis.neighbours.graph import build_neighbour_graph

    z = np.load(features)
    initial = compute_pca_map(z)
    graph = build_neighbour_graph(z, UMAP_NEIGHBOURS - 1)
    rows = np.arange(len(z))[:, None]
    distances = np.concatenate([np.zeros_like(rows, np.float32), np.maximum(1 - graph.similarity, 0)], axis=1)
    from umap import UMAP

    given = (np.concatenate([rows, graph.positions], axis=1), distances)
    np.save(target, UMAP(init=initial, random_state=SEED, precomputed_knn=given).fit(initial).embedding_)


def measure_start(images: int, turns: int) -> None:
    """Print the time of a small map with the start of its process, and its trustworthiness."""
    from sklearn.datasets import make_blobs
    from sklearn.manifold import trustworthiness

    from crlc.analysis.maps.process import load_or_compute_map
    from crlc.analysis.maps.settings import MapSettings
    from crlc.analysis.maps.worker_process import close_map_worker, prepare_map_worker
    from crlc.analysis.neighbours.graph import build_neighbour_graph

    z = make_blobs(images, SMALL_DIMENSIONS, centers=SMALL_CLUSTERS, cluster_std=SMALL_DEVIATION, random_state=SEED)[0]
    z = z.astype(np.float32)
    build_neighbour_graph(z[:100], 5)  # imports torch, as the caller of a map has done
    seconds: dict[str, list[tuple[float, float]]] = {"umap-learn": [], "cold": [], "warm": []}
    maps: dict[str, Features] = {}
    for _ in range(turns):
        for which, taken in seconds.items():
            if which == "warm":
                prepare_map_worker()
                time.sleep(PREPARE_SECONDS)
            with tempfile.TemporaryDirectory() as folder:
                started, cpu = time.perf_counter(), sum(os.times()[:4])
                if which == "umap-learn":
                    np.save(Path(folder) / "z.npy", z)
                    command = [
                        sys.executable,
                        __file__,
                        "--one",
                        "umap-learn-only",
                        f"{folder}/z.npy",
                        f"{folder}/m.npy",
                    ]
                    subprocess.run(command, check=True)
                    maps[which] = np.load(f"{folder}/m.npy")
                else:
                    maps[which] = load_or_compute_map(z, MapSettings("umap", seed=SEED), Path(folder))
                taken.append((time.perf_counter() - started, sum(os.times()[:4]) - cpu))
            close_map_worker()
    for which, taken in seconds.items():
        wall, cpu = (statistics.median(values) for values in zip(*taken, strict=True))
        trust = trustworthiness(z, maps[which], n_neighbors=15, metric="cosine")
        print(f"{which}: {wall:.1f} s, {cpu:.1f} s of CPU, trustworthiness {trust:.4f} (target: {MAX_START_SECONDS} s)")
    for which in ("cold", "warm"):
        ratio = statistics.median(
            ours[0] / theirs[0] for ours, theirs in zip(seconds[which], seconds["umap-learn"], strict=True)
        )
        print(f"ratio of {which} to umap-learn: {ratio:.2f}")


def main() -> None:
    """Compare alternately and print the ratios."""
    parser = create_parser(__doc__)
    parser.add_argument("--images", type=int, help="by default 60,000, or 4,000 with --start")
    parser.add_argument("--start", action="store_true", help="measure a small map with the start of its process")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--one", nargs=3, metavar=("WHICH", "FEATURES", "TARGET"))
    options = parser.parse_args()
    if options.one and options.one[0] == "umap-learn-only":
        compute_with_umap_learn(Path(options.one[1]), Path(options.one[2]))
        return
    if options.one:
        measure_map(options.one[0], Path(options.one[1]), Path(options.one[2]))
        return
    images = options.images or (DEFAULT_SMALL_IMAGES if options.start else DEFAULT_IMAGES)
    print(f"{images:,} images, {describe_machine()}", flush=True)
    if options.start:
        measure_start(images, options.turns)
        return
    from sklearn.manifold import trustworthiness

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        z, _ = make_features(images, folder, hard=False)
        seconds: dict[str, list[float]] = {"umap-learn": [], "ours": []}
        for _ in range(options.turns):
            for which, taken in seconds.items():
                command = [
                    sys.executable,
                    __file__,
                    "--one",
                    which,
                    str(folder / "z.npy"),
                    str(folder / f"{which}.npy"),
                ]
                out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                taken.append(float(out.splitlines()[-1]))
        rows = np.sort(np.random.default_rng(1).permutation(len(z))[:TRUSTWORTHINESS_ROWS])
        trust = {
            which: trustworthiness(z[rows], np.load(folder / f"{which}.npy")[rows], n_neighbors=15, metric="cosine")
            for which in seconds
        }
    for which, taken in seconds.items():
        print(f"{which}: {statistics.median(taken):.1f} s, trustworthiness {trust[which]:.4f}")
    ratio = statistics.median(ours / alone for alone, ours in zip(seconds["umap-learn"], seconds["ours"], strict=True))
    print(f"ratio of time {ratio:.2f} (target: {MAX_TIME_RATIO})")
    print(f"trustworthiness lower by {trust['umap-learn'] - trust['ours']:.4f} (target: {MAX_TRUST_LOSS})")


if __name__ == "__main__":
    main()
