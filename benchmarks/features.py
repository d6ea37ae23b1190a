"""Features of a frozen backbone against the bare network: `python benchmarks/features.py FOLDER --images 1000`.

Ours is everything from image files to vectors on the disk: decode and resize (in processes), normalise, the default
backbone, writing. Bare is the same backbone on ready tensors, same batch and threads; once as it is, and once with its
batch norms folded into the convolutions, as ours is. In turns, images/s. The bar is 0.9 of the bare backbone.
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

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.config import ImportOptions
from crlc.data.augment import to_images
from crlc.model.folding import with_folded_norms
from crlc.training.features import _BATCH, backbone_features
from crlc.training.images import images_of
from crlc.training.materials import BuiltNetwork, build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace


def ours(folder: str, count: int, built: BuiltNetwork) -> tuple[float, float]:
    """Seconds to import at the backbone's size, and to compute and keep all vectors."""
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        options = ImportOptions(size=FROZEN_HEADS.image_size, limit=count)
        dataset, _ = Workspace(Path(place)).import_dataset(folder, options=options)
        imported = time.perf_counter()
        backbone_features(built.network, images_of(dataset, FROZEN_HEADS.image_size), built.identity, Path(place))
        return imported - started, time.perf_counter() - imported


@torch.inference_mode()
def bare(ready: torch.Tensor, backbone: nn.Module) -> float:
    """Seconds for a backbone on ready tensors."""
    started = time.perf_counter()
    for batch in ready.split(_BATCH):
        backbone(batch)
    return time.perf_counter() - started


def main() -> None:
    """Compare in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    built = build_network(replace(FROZEN_HEADS, clusters=2))
    built.network.to(memory_format=torch.channels_last).eval()
    size = FROZEN_HEADS.image_size
    pixels = torch.randint(256, (options.images, size, size, 3), dtype=torch.uint8)
    ready = (to_images(pixels) - built.network.mean) / built.network.std
    print(f"{options.images} images at {size} px, {options.threads} threads, commit {commit.strip()}")
    plain = built.network.backbone
    folded = with_folded_norms(plain, ready[:2])
    for backbone in (plain, folded):
        bare(ready[:128], backbone)
    ratios, folded_ratios = [], []
    for _ in range(options.turns):
        decode, compute = ours(options.folder, options.images, built)
        alone, alone_folded = bare(ready, plain), bare(ready, folded)
        ratios.append(alone / (decode + compute))
        folded_ratios.append(alone_folded / (decode + compute))
        per_second = [options.images / seconds for seconds in (decode + compute, alone, alone_folded)]
        print(
            f"files to vectors {per_second[0]:.1f} images/s (decode {decode:.1f} s, rest {compute:.1f} s), "
            f"bare {per_second[1]:.1f}, folded {per_second[2]:.1f}; ratio {ratios[-1]:.3f}, to the folded one "
            f"{folded_ratios[-1]:.3f}, without decoding {alone_folded / compute:.3f}",
            flush=True,
        )
    print(f"median ratio {statistics.median(ratios):.3f} (bar: 0.9), to the folded backbone ", end="")
    print(f"{statistics.median(folded_ratios):.3f}")


if __name__ == "__main__":
    main()
