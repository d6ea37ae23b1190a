"""File beside cached features that names the image-text model that computed them: its text encoder is used later."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypedDict

from crlc.errors import CrlcError
from crlc.files import read_json, write_json

_FILE, _KIND, _VERSION = "image-text.json", "image-text-features", 1


class FeatureSource(NamedTuple):
    """The image-text model that computed the features in a folder."""

    backbone: str
    weights: str
    """Path of its local weights file; empty if the name of the backbone includes its weights."""


class _Entries(TypedDict):
    backbone: str
    weights: str


def write_feature_source(folder: Path, source: FeatureSource) -> None:
    """Store the model that computed the features in a folder."""
    weights = str(Path(source.weights).resolve()) if source.weights else ""
    entries = {"backbone": source.backbone, "weights": weights}
    write_json(folder / _FILE, {"kind": _KIND, "version": _VERSION, **entries})


def find_feature_sources(features: Path) -> dict[Path, FeatureSource]:
    """Return the models of the feature folders of a dataset that belong to an image-text model; damaged files are not.

    Args:
        features: folder with the features of all backbones.
    """
    found = {}
    for file in sorted(features.glob(f"*/{_FILE}")):
        try:
            entries = read_json(file, _KIND, _VERSION, "", _Entries)
        except CrlcError:
            continue
        found[file.parent] = FeatureSource(entries["backbone"], entries["weights"])
    return found
