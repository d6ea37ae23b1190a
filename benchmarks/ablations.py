"""The paper's comparisons on small data: `benchmarks/ablations.py digits`, `... fashion.npz --size 16 --epochs 10`.

Critics, C-head only, the weight of L_FC, SimCLR form against MemoryBank form, and k-means on pixels, on z,
and on the z of an RL-head trained alone. ACC in per cent for each seed; the subhead is chosen by its loss.
Everything is written down as it comes; classes are used for nothing but these numbers.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.agreement import agreement
from crlc.config import ImportOptions
from crlc.data.augment import suitable_recipe
from crlc.training.distributed import Compute
from crlc.training.images import TrainingImages, images_of
from crlc.training.presets import Circumstances, preset
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.training.trainer import Trainer
from crlc.workspace import Workspace

VARIANTS: dict[str, dict[str, object]] = {
    "CRLC (log-dot, λ2 = 1, SimCLR form)": {},
    "critic dot": {"critic": "dot"},
    "critic neg-l2": {"critic": "neg-l2"},
    "critic neg-js": {"critic": "neg-js"},
    "C-head only (λ2 = 0)": {"feature_weight": 0.0},
    "λ2 = 3": {"feature_weight": 3.0},
    "λ2 = 10": {"feature_weight": 10.0},
    "MemoryBank form": {"implementation": "memory-bank"},
    "RL-head alone": {"clustering_weight": 0.0},
}


def train(images: TrainingImages, settings: TrainSettings) -> tuple[dict[str, float], np.ndarray]:
    """One run: its last metrics, and z."""
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place, "run"))
        folder.path.mkdir()
        trainer = Trainer(images, replace(settings, evaluations=1), folder, Compute(torch.device("cpu")))
        trainer.run()
        return trainer.journal.latest, np.array(folder.result()[0]["z"])


def k_means(features: np.ndarray, classes: np.ndarray, clusters: int, seed: int) -> float:
    """ACC of k-means."""
    found = KMeans(clusters, n_init=10, random_state=seed).fit_predict(features)
    return agreement(found.astype(np.int64), classes).acc  # type: ignore[union-attr]


def row(name: str, values: list[float], seconds: float | None) -> None:
    """Print one line of the table."""
    each = ", ".join(f"{100 * value:.1f}" for value in values)
    took = "" if seconds is None else f"{seconds:.0f} s"
    print(f"| {name} | {each} | {100 * statistics.median(values):.1f} | {took} |", flush=True)


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--size", type=int, help="side of the images; by default what an import chooses")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), help="names of variants")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    with tempfile.TemporaryDirectory() as place:
        size = ImportOptions(size=options.size)
        dataset, _ = Workspace(Path(place)).import_dataset(options.source, options=size)
        images = images_of(dataset, dataset.summary().sizes[0])
        clusters = len(dataset.summary().classes)
        glyphs = suitable_recipe(images.sample(64)) == "glyph"
        around = Circumstances(len(images), images.size, glyphs, has_gpu=False)
        base = replace(preset("quick", around), clusters=clusters, epochs=options.epochs, feature_weight=1.0)
        about = f"{dataset.name}: {len(images):,} images of {images.size} px, {options.epochs} epochs"
        about += f", seeds {options.seeds}"
        print(f"{about}, {options.threads} threads, commit {commit.strip()}")
        print("| variant | ACC by seed | median | per run |\n|---|---|---|---|")
        pixels = images.read(images.ids)[..., 0].reshape(len(images), -1) / 255
        assert images.classes is not None
        row("k-means on pixels", [k_means(pixels, images.classes, clusters, seed) for seed in options.seeds], None)
        for name in options.only:
            scores, on_z, started = [], [], time.perf_counter()
            for seed in options.seeds:
                metrics, z = train(images, replace(base, seed=seed, **VARIANTS[name]))  # type: ignore[arg-type]
                scores.append(metrics["acc"])
                on_z.append(k_means(z, images.classes, clusters, seed))
            seconds = (time.perf_counter() - started) / len(options.seeds)
            if name != "RL-head alone":
                row(name, scores, seconds)
            if name == "RL-head alone" or not VARIANTS[name]:
                row(f"k-means on z of: {name}", on_z, None)


if __name__ == "__main__":
    main()
