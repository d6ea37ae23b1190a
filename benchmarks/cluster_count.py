"""The suggested number of clusters: `python benchmarks/cluster_count.py digits scenes/ fashion.npz cifar10_5k/`.

For each source the suggestion and its curve; for the digits also subsets of their classes: the first 3, 5 and 8, and
some others. Classes are used only to make the subsets and to print how many there are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.config import ImportOptions
from crlc.training.counting import suggested_count, wants_pixels
from crlc.training.images import TrainingImages, at_positions, images_of
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

SUBSETS = ("012", "358", "479", "019", "01234", "13579", "56789", "01234567", "02345689", "23456789")


def show(title: str, images: TrainingImages) -> None:
    """Print one suggestion."""
    assert images.classes is not None
    found = suggested_count(images, torch.device("cpu"))
    shares = " ".join(f"{share:.2f}" for share in found.count.added_share[:14])
    classes = len(set(images.classes.tolist()))
    print(f"| {title} | {classes} | {found.count.suggestion} | {found.count.clearness:.2f} | {shares} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--workspace", type=Path, help="keep features here between calls")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print(f"commit {commit.strip()}")
    print("| images | classes | suggested | clearness | share added by cluster 2, 3, ... |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(options.workspace or Path(place))
        for source in options.sources:
            dataset, _ = workspace.import_dataset(source)
            images = images_of(dataset, dataset.usual_size())
            if not wants_pixels(images):
                size = FROZEN_HEADS.image_size
                workspace.import_dataset(source, name=dataset.name, options=ImportOptions(size=size))
                images = images_of(dataset, size)
            show(dataset.name, images)
            if source == "digits":
                assert images.classes is not None
                for subset in SUBSETS:
                    chosen = np.isin(images.classes, [int(digit) for digit in subset])
                    show(f"digits {subset}", at_positions(images, np.flatnonzero(chosen)))


if __name__ == "__main__":
    main()
