"""Datasets of the experiments: where they come from, and how they are imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crlc.data.options import ImportOptions
from crlc.data.sources.builtin import BUILTIN_DATASETS
from crlc.workspace import Workspace

BUILTIN, IMAGENET, FILE = "downloaded", "ImageNet", "file"


@dataclass(frozen=True)
class DataSource:
    """Origin of a dataset."""

    kind: str
    """`BUILTIN` (part of the program, downloaded if necessary), `IMAGENET` or `FILE`."""

    name: str
    """Name of the built-in dataset, of the subset of ImageNet, or of the file in the data folder."""


DATASETS = {
    **{name: DataSource(BUILTIN, name) for name in ("digits", "cifar10", "cifar20", "cifar100", "stl10")},
    **{
        name: DataSource(IMAGENET, name)
        for name in ("imagenet10", "imagenet-dogs", "imagenet50", "imagenet100", "imagenet200")
    },
    "fashion_10k": DataSource(FILE, "fashion_10k.npz"),
    "cifar10_5k": DataSource(FILE, "cifar10_5k"),
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
    source = DATASETS[name]
    options = ImportOptions(subset=source.name if source.kind == IMAGENET else None, limit=locations.images)
    workspace.import_dataset(location, name=imported, options=options)
    return imported
