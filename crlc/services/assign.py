"""Assignment of new images from any source to the clusters of a model; nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.clusters.probabilities import merge_probabilities
from crlc.data.augmentation import RECIPES
from crlc.data.decode import decode_square
from crlc.data.sources import Source, SourceEntry, UnreadableError
from crlc.data.sources.folder import read_file
from crlc.data.sources.opening import open_source
from crlc.errors import SourceError
from crlc.training.images import TrainingImages
from crlc.training.inference import assign_images
from crlc.training.inputs import ImageInputs
from crlc.training.model_file import TrainedModel

_IMAGES_PER_BATCH = 512


@dataclass(frozen=True)
class NewAssignments:
    """Clusters of the images of a source."""

    paths: list[str]
    clusters: NDArray[np.int32]
    """Cluster of each image after manual merges."""

    confidence: NDArray[np.float32]
    unreadable: dict[str, str]
    """Reason why each unreadable file was skipped, by path."""


def assign_source(model: TrainedModel, source_path: str, downloads: Path, device: torch.device) -> NewAssignments:
    """Assign all readable images of a source.

    Args:
        model: model whose network is on `device`.
        source_path: folder, .zip, .npz, .csv, image file or built-in dataset.
        downloads: folder of built-in datasets.
        device: device of the network.

    Raises:
        SourceError: the source does not exist, or has no readable image.
    """
    source: Source = _SingleFile(source_path) if _is_single_image(source_path) else open_source(source_path, downloads)
    paths: list[str] = []
    clusters: list[NDArray[np.int32]] = []
    confidence: list[NDArray[np.float32]] = []
    unreadable: dict[str, str] = {}
    batch: list[NDArray[np.uint8]] = []

    def flush() -> None:
        if batch:
            inputs = ImageInputs(TrainingImages.from_array(np.stack(batch)), RECIPES["none"], device)
            assigned = assign_images(model.network, inputs, inputs.images.ids, model.subhead)
            q = merge_probabilities(assigned.q, model.clusters.merged)
            clusters.append(q.argmax(axis=1).astype(np.int32))
            confidence.append(q.max(axis=1))
            batch.clear()

    for entry in sorted(source.list_entries(), key=lambda entry: entry.path):
        try:
            if entry.problem is not None:
                raise UnreadableError(entry.problem)
            _, square = decode_square(source.read(entry.path), model.settings.data.image_size)
        except UnreadableError as error:
            unreadable[entry.path] = str(error)
            continue
        batch.append(np.asarray(square))
        paths.append(entry.path)
        if len(batch) == _IMAGES_PER_BATCH:
            flush()
    flush()
    if not paths:
        reason = next(iter(unreadable.values()), "it is empty")
        raise SourceError(f"{source_path} has no readable image: {reason}.")
    return NewAssignments(paths, np.concatenate(clusters), np.concatenate(confidence), unreadable)


def _is_single_image(source_path: str) -> bool:
    path = Path(source_path)
    return path.is_file() and path.suffix.lower() not in (".zip", ".npz", ".csv", ".tsv")


@dataclass(frozen=True)
class _SingleFile:
    """Source with one image file."""

    location: str
    kind: str = "file"
    has_folders: bool = False

    def list_entries(self) -> Iterator[SourceEntry]:
        yield SourceEntry(self.location, 0, "")

    def read(self, path: str) -> bytes:
        return read_file(path)
