"""Suggested number of clusters: `python benchmarks/cluster_count.py digits scenes/ fashion.npz cifar10_5k/`.

Prints the suggestion and its curve for each source; for the digits also for subsets of their classes. Classes are used
only to form the subsets and to print their number.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, read_commit
from crlc.data.options import ImportOptions
from crlc.services.cluster_count import suggest_count, suits_pixels
from crlc.training.images import TrainingImages, load_images, select_positions
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

SUBSETS = ("012", "358", "479", "019", "01234", "13579", "56789", "01234567", "02345689", "23456789")


def print_suggestion(title: str, images: TrainingImages) -> None:
    """Print one row of the table."""
    assert images.classes is not None
    found = suggest_count(images, torch.device("cpu"))
    fractions = " ".join(f"{fraction:.2f}" for fraction in found.count.added_fraction[:14])
    classes = len(set(images.classes.tolist()))
    print(f"| {title} | {classes} | {found.count.suggestion} | {found.count.clearness:.2f} | {fractions} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--workspace", type=Path, help="stores features between calls")
    options = parser.parse_args()
    print(f"commit {read_commit()}")
    print("| images | classes | suggested | clearness | fraction added by cluster 2, 3, ... |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(options.workspace or Path(temporary))
        for source in options.sources:
            dataset, _ = workspace.import_dataset(source)
            images = load_images(dataset, dataset.get_default_size())
            if not suits_pixels(images):
                size = FROZEN_HEADS.data.image_size
                workspace.import_dataset(source, name=dataset.name, options=ImportOptions(size=size))
                images = load_images(dataset, size)
            print_suggestion(dataset.name, images)
            if source == "digits":
                assert images.classes is not None
                for subset in SUBSETS:
                    chosen = np.isin(images.classes, [int(digit) for digit in subset])
                    print_suggestion(f"digits {subset}", select_positions(images, np.flatnonzero(chosen)))


if __name__ == "__main__":
    main()
