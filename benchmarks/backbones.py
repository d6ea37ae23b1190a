"""Backbones without training: `python benchmarks/backbones.py scenes/ cifar10_5k/ fashion.npz --sizes 160 224`.

For each dataset, image size and backbone, prints ACC of k-means and of the default heads of `benchmarks/heads.py` on
its frozen features, and first the time per image of each backbone, measured in turns. Features of a pair are
concatenated from those of its parts. Classes are used for these numbers only.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.heads import train_crlc
from benchmarks.support import create_parser, read_commit
from crlc.analysis.class_metrics import compute_accuracy
from crlc.analysis.normalization import normalize_rows
from crlc.data.feature_shards import FeatureCache
from crlc.data.options import ImportOptions
from crlc.model.backbone_pair import SEPARATOR
from crlc.model.pretrained import load_pretrained
from crlc.training.feature_cache import load_or_compute_features, make_feature_keys
from crlc.training.feature_engine import create_engine, measure_seconds_per_image
from crlc.training.images import TrainingImages, load_images
from crlc.training.network_builder import build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

BACKBONES = (
    "default",
    "efficientnet-lite1",
    "efficientnet-lite2",
    "default+efficientnet-lite1",
    "default+efficientnet-lite2",
    "efficientnet-lite1+efficientnet-lite2",
)
TIMED_IMAGES, ROUNDS = 128, 5
DEFAULT_RULE = "**CRLC, by I - H / 2, consensus of the balanced subheads distilled (default)**"


def measure_times(size: int, names: list[str]) -> dict[str, float]:
    """Return the median milliseconds per image of each backbone with the fast engine, measured in turns."""
    pixels = torch.randint(0, 256, (TIMED_IMAGES, size, size, 3), dtype=torch.uint8)
    engines = {}
    for name in names:
        built = build_network(FROZEN_HEADS.replace(backbone=name, image_size=size))
        engines[name] = create_engine("auto", built.network.eval(), pixels[:2], built.identity)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name, engine in engines.items():
            times[name].append(1000 * measure_seconds_per_image(engine, pixels))
    return {name: statistics.median(values) for name, values in times.items()}


def concatenate_features(images: TrainingImages, name: str) -> None:
    """Store the features of a pair, from the cached features of its parts."""
    assert images.feature_folder is not None
    keys, parts = make_feature_keys(images), []
    identities = [load_pretrained(part).identity for part in name.split(SEPARATOR)]
    for identity in identities:
        vectors = FeatureCache(images.feature_folder / f"{identity}-{images.size}").read(keys)
        parts.append(normalize_rows(vectors))
    cache = FeatureCache(images.feature_folder / f"{SEPARATOR.join(identities)}-{images.size}")
    if not cache.contains(keys).all():
        cache.add(keys, np.concatenate(parts, axis=1).astype(np.float16))


def compare(title: str, images: TrainingImages, names: list[str], seeds: list[int], times: dict[str, float]) -> None:
    """Print one row per backbone."""
    assert images.classes is not None
    clusters = len(set(images.classes.tolist()))
    for name in names:
        if SEPARATOR in name:
            concatenate_features(images, name)
        else:
            built = build_network(FROZEN_HEADS.replace(backbone=name, image_size=images.size), len(images))
            load_or_compute_features(built.network, images, built.identity, Path(), engine="auto")
        k_means, heads = [], []
        for seed in seeds:
            changes = (f"backbone={name}", f"image_size={images.size}")
            accuracy, inputs = train_crlc(images, clusters, seed, changes)
            found = KMeans(clusters, n_init=10, random_state=seed).fit_predict(inputs.vectors)
            k_means.append(compute_accuracy(found.astype(np.int64), images.classes))
            heads.append(accuracy[DEFAULT_RULE])
        cells = [f"{100 * statistics.median(values):.1f}" for values in (k_means, heads)]
        ratio = times[name] / times[names[0]]
        print(f"| {title} | {images.size} | {name} | {ratio:.2f} | {cells[0]} | {cells[1]} |", flush=True)


def main() -> None:
    """Compare all backbones on all sources and sizes."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--backbones", nargs="+", default=list(BACKBONES))
    parser.add_argument("--sizes", type=int, nargs="+", default=[160])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workspace", type=Path, help="stores images and features between calls")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"seeds {options.seeds}, {options.threads} threads, commit {read_commit()}")
    print("| dataset | px | backbone | time, relative | k-means ACC | heads ACC |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        for size in options.sizes:
            times = measure_times(size, options.backbones)
            print(
                f"<!-- {size} px, ms per image: { ({name: round(ms, 1) for name, ms in times.items()}) } -->",
                flush=True,
            )
            for source in options.sources:
                name = f"{Path(source).stem}_{size}".lower()
                dataset, _ = workspace.import_dataset(source, name=name, options=ImportOptions(size=size))
                compare(Path(source).stem, load_images(dataset, size), options.backbones, options.seeds, times)


if __name__ == "__main__":
    main()
