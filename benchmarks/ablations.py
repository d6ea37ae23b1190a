"""Ablations of the paper on small data: `benchmarks/ablations.py digits`, `... fashion.npz --size 16 --epochs 10`.

Compares critics, the C-head alone, weights of L_FC, SimCLR and MemoryBank form, and k-means on pixels, on z, and on the
z of an RL-head trained alone. Prints ACC in per cent for each seed; the subhead is selected by its loss. Classes are
used for these numbers only.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, format_percentages, read_commit
from crlc.analysis.class_metrics import compute_accuracy
from crlc.arrays import Features, IntArray
from crlc.data.augmentation import choose_recipe
from crlc.data.options import ImportOptions
from crlc.runs.folder import RunFolder
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages, load_images
from crlc.training.presets import PresetContext, build_preset
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


def train(images: TrainingImages, settings: TrainSettings) -> tuple[dict[str, Any], Features]:
    """Train one run; return its last metrics, and z."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = RunFolder(Path(temporary, "run"))
        folder.path.mkdir()
        trainer = Trainer(images, settings.replace(evaluations=1), folder, ComputeContext(torch.device("cpu")))
        trainer.run()
        return trainer.logger.latest_metrics, np.array(folder.open_result()[0]["z"])


def score_k_means(features: Features, classes: IntArray, clusters: int, seed: int) -> float:
    """Return the ACC of k-means."""
    found = KMeans(clusters, n_init=10, random_state=seed).fit_predict(features)
    return compute_accuracy(found.astype(np.int64), classes)


def print_row(name: str, values: list[float], seconds: float | None) -> None:
    """Print one row of the table."""
    each = format_percentages(values)
    took = "" if seconds is None else f"{seconds:.0f} s"
    print(f"| {name} | {each} | {100 * statistics.median(values):.1f} | {took} |", flush=True)


def main() -> None:
    """Train all variants and print a table."""
    parser = create_parser(__doc__)
    parser.add_argument("source")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--size", type=int, help="side of the images in pixels; by default that of the import")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), help="names of the variants to train")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        size = ImportOptions(size=options.size)
        dataset, _ = Workspace(Path(temporary)).import_dataset(options.source, options=size)
        images = load_images(dataset, dataset.summarize().sizes[0])
        clusters = len(dataset.summarize().classes)
        glyphs = choose_recipe(images.sample_pixels(64)) == "glyph"
        context = PresetContext(len(images), images.size, glyphs, has_gpu=False)
        base = build_preset("quick", context).replace(clusters=clusters, epochs=options.epochs, feature_weight=1.0)
        title = f"{dataset.name}: {len(images):,} images of {images.size} px, {options.epochs} epochs"
        title += f", seeds {options.seeds}"
        print(f"{title}, {options.threads} threads, commit {read_commit()}")
        print("| variant | ACC by seed | median | per run |\n|---|---|---|---|")
        pixels = images.read(images.ids)[..., 0].reshape(len(images), -1) / 255
        assert images.classes is not None
        print_row(
            "k-means on pixels", [score_k_means(pixels, images.classes, clusters, seed) for seed in options.seeds], None
        )
        for name in options.only:
            scores, on_z, started = [], [], time.perf_counter()
            for seed in options.seeds:
                metrics, z = train(images, base.replace(seed=seed, **VARIANTS[name]))
                scores.append(metrics["acc"])
                on_z.append(score_k_means(z, images.classes, clusters, seed))
            seconds = (time.perf_counter() - started) / len(options.seeds)
            if name != "RL-head alone":
                print_row(name, scores, seconds)
            if name == "RL-head alone" or not VARIANTS[name]:
                print_row(f"k-means on z of: {name}", on_z, None)


if __name__ == "__main__":
    main()
