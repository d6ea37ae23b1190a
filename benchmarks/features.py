"""Speed of computing features from image files, compared with the backbone alone on prepared tensors.

Usage: `python benchmarks/features.py FOLDER --images 1000`.

The measured pipeline is everything from image files to vectors on disk: decoding and resizing (in processes),
normalisation, the default backbone with folded batch norms, writing. The baseline is the same backbone on prepared
tensors with the same batch size and threads, with and without folded batch norms. Both are measured alternately, in
images/s. Target: 0.9 of the backbone alone.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, read_commit
from crlc.data.augmentation import to_images
from crlc.data.options import ImportOptions
from crlc.model.folding import fold_batch_norms
from crlc.training.feature_cache import _BATCH_IMAGES, load_or_compute_features
from crlc.training.images import load_images
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace


def measure_pipeline(folder: str, count: int, built: BuiltNetwork) -> tuple[float, float]:
    """Return the seconds to import at the image size of the backbone, and to compute and store all vectors."""
    with tempfile.TemporaryDirectory() as temporary:
        started = time.perf_counter()
        options = ImportOptions(size=FROZEN_HEADS.data.image_size, limit=count)
        dataset, _ = Workspace(Path(temporary)).import_dataset(folder, options=options)
        imported = time.perf_counter()
        load_or_compute_features(
            built.network, load_images(dataset, FROZEN_HEADS.data.image_size), built.identity, Path(temporary)
        )
        return imported - started, time.perf_counter() - imported


@torch.inference_mode()
def measure_backbone(ready: torch.Tensor, backbone: nn.Module) -> float:
    """Return the seconds that a backbone needs for prepared tensors."""
    started = time.perf_counter()
    for start in range(0, len(ready), _BATCH_IMAGES):
        backbone(ready[start : start + _BATCH_IMAGES])
    return time.perf_counter() - started


def main() -> None:
    """Measure both alternately and print the ratios."""
    parser = create_parser(__doc__)
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    built = build_network(FROZEN_HEADS.replace(clusters=2))
    built.network.to(memory_format=torch.channels_last).eval()
    size = FROZEN_HEADS.data.image_size
    pixels = torch.randint(256, (options.images, size, size, 3), dtype=torch.uint8)
    ready = (to_images(pixels) - built.network.mean) / built.network.std
    print(f"{options.images} images at {size} px, {options.threads} threads, commit {read_commit()}")
    original = built.network.backbone
    folded = fold_batch_norms(original, ready[:2])
    for backbone in (original, folded):
        measure_backbone(ready[:128], backbone)
    ratios, folded_ratios = [], []
    for _ in range(options.turns):
        decode, compute = measure_pipeline(options.folder, options.images, built)
        alone, alone_folded = measure_backbone(ready, original), measure_backbone(ready, folded)
        ratios.append(alone / (decode + compute))
        folded_ratios.append(alone_folded / (decode + compute))
        per_second = [options.images / seconds for seconds in (decode + compute, alone, alone_folded)]
        print(
            f"pipeline {per_second[0]:.1f} images/s (decoding {decode:.1f} s, features {compute:.1f} s), "
            f"backbone alone {per_second[1]:.1f}, folded backbone {per_second[2]:.1f}; ratio to the backbone "
            f"{ratios[-1]:.3f}, to the folded backbone {folded_ratios[-1]:.3f} (without decoding "
            f"{alone_folded / compute:.3f})",
            flush=True,
        )
    print(
        f"median ratio to the backbone {statistics.median(ratios):.3f} (target: 0.9), to the folded backbone ", end=""
    )
    print(f"{statistics.median(folded_ratios):.3f}")


if __name__ == "__main__":
    main()
