"""UMAP on our neighbour graph against umap-learn alone: `python benchmarks/maps.py [--images 60000]`.

Both use the same seed and settings (15 neighbours, cosine; ours 120 epochs, umap-learn its default of 200), alternately
and each in a separate process. Loading and compilation are not measured. Trustworthiness at 15 is computed on a common
subsample, because it needs a matrix of all distances. Targets: at most 0.7 of the time, trustworthiness at most 0.02
lower.
"""

from __future__ import annotations

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


def main() -> None:
    """Compare alternately and print the ratios."""
    parser = create_parser(__doc__)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--one", nargs=3, metavar=("WHICH", "FEATURES", "TARGET"))
    options = parser.parse_args()
    if options.one:
        measure_map(options.one[0], Path(options.one[1]), Path(options.one[2]))
        return
    from sklearn.manifold import trustworthiness

    print(f"{options.images:,} images, {describe_machine()}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        z, _ = make_features(options.images, folder, hard=False)
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
