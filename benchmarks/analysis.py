"""Growth of time and memory of the analysis with the images: `python benchmarks/analysis.py [--most 1000000]`.

Synthetic features of 128 dimensions and unit norm: 50 clusters of unequal size, each a normal distribution in a random
subspace of 10 dimensions, with noise in all (`--hard`: 20 clusters of 16 dimensions). Each size runs in a separate
process. Targets: the fitted exponent from 10,000 images is at most 1.3 for the approximate graph (recall at 10 at least
0.95) and 1.1 for the rest; peak memory is at most 8 GiB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, fit_exponent, make_features, record_peak

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FIT_FROM = 10_000
RECALL_ROWS = 1000
MAX_GRAPH_EXPONENT, MAX_EXPONENT = 1.3, 1.1
NEIGHBOURS = 10
REPEAT_SECONDS, MAX_REPEATS = 3.0, 7
POLL_SECONDS = 0.02


class Measurements:
    """Seconds and peak memory of each part of the analysis."""

    def __init__(self) -> None:
        """Start without measurements."""
        self.parts: dict[str, dict[str, float]] = {}

    def measure(self, name: str, action: Callable[[], Any]) -> Any:
        """Run a part several times; return its result."""
        import psutil

        process = psutil.Process()
        times: list[float] = []
        with record_peak(lambda: int(process.memory_info().rss), POLL_SECONDS) as peak:
            # Short parts are repeated: other work on the machine disturbs the minimum least.
            while not times or (sum(times) < REPEAT_SECONDS and len(times) < MAX_REPEATS):
                started = time.perf_counter()
                result = action()
                times.append(time.perf_counter() - started)
        self.parts[name] = {"seconds": min(times), "gib": peak.value / 2**30}
        return result


def measure_size(count: int, *, hard: bool) -> None:
    """Print the measurements of one size as JSON; runs in a separate process."""
    from crlc.analysis.cluster_pairs import compute_cluster_pairs
    from crlc.analysis.label_suggestions import suggest_images_to_label
    from crlc.analysis.maps.projections import compute_pca_map
    from crlc.analysis.merge_split import suggest_merges, suggest_splits
    from crlc.analysis.near_duplicates import find_duplicates_by_features, find_duplicates_by_hash
    from crlc.analysis.neighbours.exact import Neighbours, compute_recall, drop_self, search_exact
    from crlc.analysis.neighbours.graph import build_approximate_graph, build_neighbour_graph
    from crlc.analysis.neighbours.index import NeighbourIndex
    from crlc.analysis.perceptual_hash import PerceptualHashes
    from crlc.analysis.quality import compute_cluster_quality, compute_image_quality, compute_run_quality

    measurements = Measurements()
    with tempfile.TemporaryDirectory() as temporary:
        z, clusters = make_features(count, Path(temporary), hard=hard)
        width = int(clusters.max()) + 1
        q = np.full((count, width), 0.1 / (width - 1), dtype=np.float32)
        q[np.arange(count), clusters] = 0.9
        find_duplicates_by_features(build_neighbour_graph(z[:300], 3, exact=False), 0.1)  # loads the libraries
        index = measurements.measure("index", lambda: NeighbourIndex.build(z, exact=False))
        graph = measurements.measure("graph", lambda: build_approximate_graph(index.faiss_index, z, NEIGHBOURS))
        rows = np.random.default_rng(1).permutation(count)[:RECALL_ROWS]
        truth = drop_self(search_exact(z, np.asarray(z[rows]), NEIGHBOURS + 1), rows)
        recall = compute_recall(Neighbours(graph.positions[rows], graph.similarity[rows]), truth)
        images = measurements.measure("quality", lambda: compute_image_quality(q, z, clusters, graph))
        pairs = measurements.measure("pairs", lambda: compute_cluster_pairs(q, z, clusters, graph))
        compute_cluster_quality(images, clusters, pairs), compute_run_quality(images, clusters)
        measurements.measure("suggestions", lambda: (suggest_merges(pairs), suggest_splits(z, clusters, graph)))
        measurements.measure("to label", lambda: suggest_images_to_label(z, clusters, images, 100))
        measurements.measure("duplicates", lambda: find_duplicates_by_features(graph))
        random = np.random.default_rng(2)
        hashes = random.integers(0, 2**63, count, dtype=np.uint64)
        hashes[: count // 20] = hashes[-(count // 20) :] ^ np.uint64(5)
        images_hashes = PerceptualHashes(hashes, np.zeros((count, 8, 9), np.uint8))
        measurements.measure("hash duplicates", lambda: find_duplicates_by_hash(images_hashes))
        measurements.measure("PCA map", lambda: compute_pca_map(z))
    print(
        json.dumps({"count": count, "recall": recall, "cells": index.faiss_index.nprobe, "parts": measurements.parts})
    )


def main() -> None:
    """Measure all sizes and print a table."""
    parser = create_parser(__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--one", type=int)
    options = parser.parse_args()
    if options.one:
        measure_size(options.one, hard=options.hard)
        return
    print(describe_machine(), flush=True)
    results = []
    for count in (size for size in SIZES if size <= options.most):
        command = [sys.executable, __file__, "--one", str(count), *(["--hard"] if options.hard else [])]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        results.append(json.loads(out.splitlines()[-1]))
        parts = results[-1]["parts"]
        times = ", ".join(f"{name} {part['seconds']:.2f} s" for name, part in parts.items())
        most = max(part["gib"] for part in parts.values())
        print(f"{count:>9,}: {times}; recall {results[-1]['recall']:.3f}; at most {most:.2f} GiB", flush=True)
    large = [result for result in results if result["count"] >= FIT_FROM]
    if len(large) > 1:
        counts = [result["count"] for result in large]
        both = [result["parts"]["index"]["seconds"] + result["parts"]["graph"]["seconds"] for result in large]
        print(f"index and graph: exponent {fit_exponent(counts, both):.2f} (target: {MAX_GRAPH_EXPONENT})")
        for name in large[0]["parts"]:
            found = fit_exponent(counts, [result["parts"][name]["seconds"] for result in large])
            target = MAX_GRAPH_EXPONENT if name in ("index", "graph") else MAX_EXPONENT
            print(f"{name}: exponent {found:.2f} (target: {target})")


if __name__ == "__main__":
    main()
