"""Suggested number of clusters: `python benchmarks/cluster_count.py digits scenes/ fashion.npz cifar10_5k/`.

Prints the suggestion, its range and its curve for each source; also for subsets of the classes of the digits, and for
the first 10, 20 and 30 classes of a source of forty. Classes are used only to form subsets and to print their number.
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

MANY_CLASSES, FIRST_CLASSES = 40, (10, 20, 30)
SUBSETS = ("012", "358", "479", "019", "01234", "13579", "56789", "01234567", "02345689", "23456789")


def print_suggestion(title: str, images: TrainingImages) -> None:
    """Print one row of the table."""
    assert images.classes is not None
    found = suggest_count(images, torch.device("cpu"))
    count = found.count
    fractions = " ".join(f"{fraction:.2f}" for fraction in count.added_fraction[:14])
    classes = len(set(images.classes.tolist()))
    suggestion = f"{count.suggestion} ({count.lowest} to {count.highest})"
    clear = "yes" if found.is_clear else "no"
    print(f"| {title} | {classes} | {suggestion} | {clear} | {count.clearness:.2f} | {fractions} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = create_parser(__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--workspace", type=Path, help="stores features between calls")
    options = parser.parse_args()
    print(f"commit {read_commit()}")
    print("| images | classes | suggested (range) | clear | clearness | fraction added by cluster 2, 3, ... |")
    print("|---|---|---|---|---|---|")
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
            assert images.classes is not None
            subsets: dict[str, list[int]] = {}
            if source == "digits":
                subsets = {f"digits {subset}": [int(digit) for digit in subset] for subset in SUBSETS}
            elif images.classes.max() + 1 == MANY_CLASSES:
                subsets = {f"{dataset.name}, first {count}": list(range(count)) for count in FIRST_CLASSES}
            for title, classes in subsets.items():
                chosen = np.flatnonzero(np.isin(images.classes, classes))
                print_suggestion(title, select_positions(images, chosen))


if __name__ == "__main__":
    main()
