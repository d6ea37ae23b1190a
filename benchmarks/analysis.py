"""How time and memory of the analysis grow with the number of images: `python benchmarks/analysis.py [--most 1000000]`.

Synthetic features, 128-d and of unit norm: 50 clusters of unequal size, each a bell curve of 10 dimensions in a
direction of its own, with noise in all (`--hard`: 20 clusters of 16 dimensions). Each size runs in a process of its
own. Bars: the fitted exponent from 10,000 up is at most 1.3 for the approximate graph (recall at least 0.95 at 10) and
1.1 for the rest; nothing needs more than 8 GiB.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FIT_FROM = 10_000
RECALL_ROWS = 1000
GRAPH_BAR, BAR = 1.3, 1.1
NEIGHBOURS = 10
REPEAT_SECONDS, MOST_REPEATS = 3.0, 7


def make_features(count: int, folder: Path, *, hard: bool) -> tuple[np.ndarray, np.ndarray]:
    """Write features to a file, a chunk at a time; returns their memory map and clusters."""
    clusters, inner = (20, 16) if hard else (50, 10)
    random = np.random.default_rng(0)
    centres = random.normal(size=(clusters, 128)).astype(np.float32)
    directions = random.normal(size=(clusters, inner, 128)).astype(np.float32)
    share = random.dirichlet(np.full(clusters, 5.0))
    cluster = random.choice(clusters, size=count, p=share)
    z = np.lib.format.open_memmap(folder / "z.npy", mode="w+", dtype=np.float32, shape=(count, 128))
    for start in range(0, count, 20_000):
        mine = cluster[start : start + 20_000]
        rows = centres[mine] + 0.1 * random.normal(size=(len(mine), 128)).astype(np.float32)
        for number in range(clusters):
            here = np.flatnonzero(mine == number)
            rows[here] += 0.3 * random.normal(size=(len(here), inner)).astype(np.float32) @ directions[number]
        z[start : start + 20_000] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    z.flush()
    return np.load(folder / "z.npy", mmap_mode="r"), cluster.astype(np.int64)


class Watch:
    """Seconds and peak memory of each part."""

    def __init__(self) -> None:
        """Nothing measured yet."""
        self.parts: dict[str, dict[str, float]] = {}

    def measure(self, name: str, action: Callable[[], Any]) -> Any:
        """Run a part."""
        import psutil

        process, peak, done = psutil.Process(), [0], threading.Event()

        def look() -> None:
            while not done.wait(0.02):
                peak[0] = max(peak[0], process.memory_info().rss)

        watcher = threading.Thread(target=look)
        watcher.start()
        times: list[float] = []
        # What is quick is repeated: the least of several is not disturbed by other work.
        while not times or (sum(times) < REPEAT_SECONDS and len(times) < MOST_REPEATS):
            started = time.perf_counter()
            result = action()
            times.append(time.perf_counter() - started)
        done.set()
        watcher.join()
        self.parts[name] = {"seconds": min(times), "gib": peak[0] / 2**30}
        return result


def one_size(count: int, *, hard: bool) -> None:
    """In a process of its own: print what was measured as JSON."""
    from crlc.analysis.cluster_pairs import cluster_pairs
    from crlc.analysis.duplicates import duplicates_by_features, duplicates_by_look
    from crlc.analysis.labelling import images_to_label
    from crlc.analysis.maps import pca_map
    from crlc.analysis.nearest import Neighbours, exact_search, recall_of, without_self
    from crlc.analysis.neighbours import NeighbourIndex
    from crlc.analysis.perceptual_hash import Looks
    from crlc.analysis.quality import cluster_quality, image_quality, run_quality
    from crlc.analysis.suggestions import merge_suggestions, split_suggestions

    watch = Watch()
    with tempfile.TemporaryDirectory() as place:
        z, clusters = make_features(count, Path(place), hard=hard)
        width = int(clusters.max()) + 1
        q = np.full((count, width), 0.1 / (width - 1), dtype=np.float32)
        q[np.arange(count), clusters] = 0.9
        duplicates_by_features(NeighbourIndex.build(z[:300], exact=False).graph(3), 0.1)  # libraries are loaded
        index = watch.measure("index", lambda: NeighbourIndex.build(z, exact=False))
        graph = watch.measure("graph", lambda: index.graph(NEIGHBOURS))
        rows = np.random.default_rng(1).permutation(count)[:RECALL_ROWS]
        truth = without_self(exact_search(z, np.asarray(z[rows]), NEIGHBOURS + 1), rows)
        recall = recall_of(Neighbours(graph.positions[rows], graph.similarity[rows]), truth)
        images = watch.measure("quality", lambda: image_quality(q, z, clusters, graph))
        pairs = watch.measure("pairs", lambda: cluster_pairs(q, z, clusters, graph))
        cluster_quality(images, clusters, pairs), run_quality(images, clusters)
        watch.measure("suggestions", lambda: (merge_suggestions(pairs), split_suggestions(z, clusters, graph)))
        watch.measure("to label", lambda: images_to_label(z, clusters, images, 100))
        watch.measure("duplicates", lambda: duplicates_by_features(graph))
        random = np.random.default_rng(2)
        hashes = random.integers(0, 2**63, count, dtype=np.uint64)
        hashes[: count // 20] = hashes[-(count // 20) :] ^ np.uint64(5)
        looks = Looks(hashes, np.zeros((count, 8, 9), np.uint8))
        watch.measure("hash duplicates", lambda: duplicates_by_look(looks))
        watch.measure("PCA map", lambda: pca_map(z))
    print(json.dumps({"count": count, "recall": recall, "cells": index.approximate.nprobe, "parts": watch.parts}))


def exponent(counts: list[int], seconds: list[float]) -> float:
    """The slope of log time over log count."""
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def main() -> None:
    """Run all sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--one", type=int)
    options = parser.parse_args()
    if options.one:
        one_size(options.one, hard=options.hard)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}", flush=True)
    results = []
    for count in (size for size in SIZES if size <= options.most):
        command = [sys.executable, __file__, "--one", str(count), *(["--hard"] if options.hard else [])]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        results.append(json.loads(out.splitlines()[-1]))
        parts = results[-1]["parts"]
        told = ", ".join(f"{name} {part['seconds']:.2f} s" for name, part in parts.items())
        most = max(part["gib"] for part in parts.values())
        print(f"{count:>9,}: {told}; recall {results[-1]['recall']:.3f}; at most {most:.2f} GiB", flush=True)
    large = [result for result in results if result["count"] >= FIT_FROM]
    if len(large) > 1:
        counts = [result["count"] for result in large]
        both = [result["parts"]["index"]["seconds"] + result["parts"]["graph"]["seconds"] for result in large]
        print(f"index and graph: exponent {exponent(counts, both):.2f} (bar: {GRAPH_BAR})")
        for name in large[0]["parts"]:
            found = exponent(counts, [result["parts"][name]["seconds"] for result in large])
            print(f"{name}: exponent {found:.2f} (bar: {GRAPH_BAR if name in ('index', 'graph') else BAR})")


if __name__ == "__main__":
    main()
