"""Datasets of the experiments: where they come from, how many images they have, and how they are imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.split_folder import write_split_folder
from crlc.arrays import IntArray
from crlc.data.options import ImportOptions
from crlc.data.sources.builtin import BUILTIN_DATASETS
from crlc.workspace import Workspace

BUILTIN, IMAGENET, FILE, SPLIT = "downloaded", "ImageNet", "file", "file with a split"
_UNLABELLED = "unlabelled"


@dataclass(frozen=True)
class DataSource:
    """Origin of a dataset."""

    kind: str
    """`BUILTIN` (part of the program, downloaded if necessary), `IMAGENET`, `FILE`, or `SPLIT` (another dataset, of
    which a fixed fifth becomes the test split)."""

    name: str
    """Name of the built-in dataset, of the subset of ImageNet, of the file in the data folder, or of the dataset that
    is split."""

    images: Mapping[str, int] = field(default_factory=dict)
    """Number of images by split; the name of the split is empty where there is none."""


_CIFAR_IMAGES = {"train": 50_000, "test": 10_000}
DATASETS = {
    "digits": DataSource(BUILTIN, "digits", {"": 1_797}),
    "cifar10": DataSource(BUILTIN, "cifar10", _CIFAR_IMAGES),
    "cifar20": DataSource(BUILTIN, "cifar20", _CIFAR_IMAGES),
    "cifar100": DataSource(BUILTIN, "cifar100", _CIFAR_IMAGES),
    "stl10": DataSource(BUILTIN, "stl10", {"train": 5_000, "test": 8_000, _UNLABELLED: 100_000}),
    "imagenet10": DataSource(IMAGENET, "imagenet10", {"": 13_000}),
    "imagenet-dogs": DataSource(IMAGENET, "imagenet-dogs", {"": 19_500}),
    "imagenet50": DataSource(IMAGENET, "imagenet50", {"": 64_274}),
    "imagenet100": DataSource(IMAGENET, "imagenet100", {"": 128_545}),
    "imagenet200": DataSource(IMAGENET, "imagenet200", {"": 256_558}),
    "fashion_10k": DataSource(FILE, "fashion_10k.npz", {"": 10_000}),
    "cifar10_5k": DataSource(FILE, "cifar10_5k", {"": 5_000}),
    "digits-split": DataSource(SPLIT, "digits", {"train": 1_442, "test": 355}),
    "fashion_10k-split": DataSource(SPLIT, "fashion_10k", {"train": 8_000, "test": 2_000}),
}
assert {source.name for source in DATASETS.values() if source.kind == BUILTIN} <= set(BUILTIN_DATASETS)


@dataclass(frozen=True)
class DataLocations:
    """Folders with data that are not downloaded."""

    imagenet: Path | None = None
    """Folder with the training images of ImageNet, one folder per class."""

    files: Path | None = None
    """Folder with the files of the miniatures."""

    images: int | None = None
    """Maximum number of images of each dataset; `None` for all."""


def find_source(name: str, locations: DataLocations) -> str | None:
    """Return the source to import a dataset from; `None` if its data are missing."""
    source = DATASETS[name]
    if source.kind == SPLIT:
        return find_source(source.name, locations)
    if source.kind == BUILTIN:
        return source.name
    if source.kind == IMAGENET:
        return None if locations.imagenet is None else str(locations.imagenet)
    path = None if locations.files is None else locations.files / source.name
    return str(path) if path is not None and path.exists() else None


def import_data(workspace: Workspace, name: str, locations: DataLocations) -> str:
    """Import a dataset unless the workspace has it, and return its name there."""
    imported = name if locations.images is None else f"{name}-{locations.images}"
    if imported in workspace.list_dataset_names():
        return imported
    location = find_source(name, locations)
    assert location is not None, name
    source, limit = DATASETS[name], locations.images
    if source.kind == SPLIT:
        folder = workspace.root.parent / "splits" / imported
        write_split_folder(*_load_arrays(location, limit), folder)
        location, limit = str(folder), None
    options = ImportOptions(subset=source.name if source.kind == IMAGENET else None, limit=limit)
    workspace.import_dataset(location, name=imported, options=options)
    return imported


def count_images(name: str, split: str | None, locations: DataLocations) -> tuple[int, int]:
    """Return how many images a run trains on: those that L_cluster is for, and the unlabelled ones.

    They are known without the data, but only approximately with a maximum number of images.

    Args:
        name: a key of `DATASETS`.
        split: splits of the run, joined by `+`; `None` for all.
        locations: with the maximum number of images.
    """
    images = DATASETS[name].images
    total = sum(images.values())
    kept = min(1.0, (locations.images or total) / total)
    chosen = {part: count for part, count in images.items() if split is None or part in split.split("+")}
    unlabelled = chosen.pop(_UNLABELLED, 0)
    return max(1, round(kept * sum(chosen.values()))), round(kept * unlabelled)


def _load_arrays(location: str, limit: int | None) -> tuple[NDArray[np.uint8], IntArray]:
    """Return images, (N, H, W), and classes of the digits or of an .npz file."""
    if location == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return np.rint(digits.images * (255 / 16)).astype(np.uint8)[:limit], digits.target[:limit]
    with np.load(location) as arrays:
        return arrays["images"][:limit], arrays["labels"][:limit]
