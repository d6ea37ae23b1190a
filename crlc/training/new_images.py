"""Images that a model has never seen: read from any source, assigned, not stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.data.augment import RECIPES
from crlc.data.decode import decode
from crlc.data.sources import Entry, Source, UnreadableError
from crlc.data.sources.folder import read_file
from crlc.data.sources.opening import open_source
from crlc.errors import SourceError
from crlc.training.assign import assign
from crlc.training.images import images_from_array
from crlc.training.inputs import ImageInputs
from crlc.training.model_file import TrainedModel

_CHUNK = 512


@dataclass(frozen=True)
class NewAssignments:
    """What became of the files at a path."""

    paths: list[str]
    clusters: NDArray[np.int32]
    """After merges that people made."""

    confidence: NDArray[np.float32]
    unreadable: dict[str, str]
    """Path and reason."""


def assign_new(model: TrainedModel, given: str, downloads: Path, device: torch.device) -> NewAssignments:
    """Assign everything readable at a path, a chunk at a time; the model must be on that device.

    Raises:
        SourceError: there is nothing, or nothing readable.
    """
    merged = model.clusters.merged
    source: Source = _SingleFile(given) if _is_single_image(given) else open_source(given, downloads)
    paths: list[str] = []
    clusters: list[NDArray[np.int32]] = []
    confidence: list[NDArray[np.float32]] = []
    unreadable: dict[str, str] = {}
    waiting: list[NDArray[np.uint8]] = []

    def flush() -> None:
        if waiting:
            inputs = ImageInputs(images_from_array(np.stack(waiting)), RECIPES["none"], device)
            seen = assign(model.network, inputs, inputs.images.ids, model.subhead)
            q = _merged(seen.q, merged) if merged else seen.q
            clusters.append(q.argmax(axis=1).astype(np.int32))
            confidence.append(q.max(axis=1))
            waiting.clear()

    for entry in sorted(source.entries(), key=lambda entry: entry.path):
        try:
            if entry.problem is not None:
                raise UnreadableError(entry.problem)
            _, square = decode(source.read(entry.path), model.settings.image_size)
        except UnreadableError as error:
            unreadable[entry.path] = str(error)
            continue
        waiting.append(np.asarray(square))
        paths.append(entry.path)
        if len(waiting) == _CHUNK:
            flush()
    flush()
    if not paths:
        reason = next(iter(unreadable.values()), "nothing is there")
        raise SourceError(f"{given} holds no readable image: {reason}.")
    return NewAssignments(paths, np.concatenate(clusters), np.concatenate(confidence), unreadable)


def _merged(q: NDArray[np.float32], merged: Mapping[int, int]) -> NDArray[np.float32]:
    """Probabilities in which those of merged clusters are added up."""
    together = q.copy()
    for gone, kept in merged.items():
        together[:, kept] += q[:, gone]
        together[:, gone] = 0
    return together


def _is_single_image(given: str) -> bool:
    path = Path(given)
    return path.is_file() and path.suffix.lower() not in (".zip", ".npz", ".csv", ".tsv")


@dataclass(frozen=True)
class _SingleFile:
    """One image file as a source of one image."""

    location: str
    kind: str = "file"
    has_folders: bool = False

    def entries(self) -> Iterator[Entry]:
        yield Entry(self.location, 0, "")

    def read(self, path: str) -> bytes:
        return read_file(path)
