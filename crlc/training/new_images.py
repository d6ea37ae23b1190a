"""Images that a run has never seen: read from any source, assigned, not stored."""

from __future__ import annotations

from collections.abc import Iterator
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
from crlc.errors import NotFoundError, SourceError
from crlc.model import CrlcNetwork
from crlc.training.assign import assign
from crlc.training.checkpoint import load_checkpoint
from crlc.training.images import images_from_array
from crlc.training.inputs import ImageInputs
from crlc.training.materials import network_of
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings

_CHUNK = 512


@dataclass(frozen=True)
class NewAssignments:
    """What became of the files at a path."""

    paths: list[str]
    clusters: NDArray[np.int32]
    confidence: NDArray[np.float32]
    unreadable: dict[str, str]
    """Path and reason."""


def load_network(run: RunFolder, device: torch.device) -> tuple[CrlcNetwork, TrainSettings, int]:
    """The network of a run as its newest checkpoint has it, its settings, and the subhead that speaks.

    Raises:
        NotFoundError: it has no checkpoint yet.
    """
    if not run.checkpoint_file.exists():
        raise NotFoundError(f"The run {run.id} has no checkpoint yet. Wait for its first one, or resume it.")
    state = load_checkpoint(run.checkpoint_file, device)
    settings = TrainSettings.from_json(state["settings"])
    return network_of(state, settings).to(device).eval(), settings, int(state["subhead"])


def assign_new(run: RunFolder, given: str, downloads: Path, device: torch.device) -> NewAssignments:
    """Assign everything readable at a path, a chunk at a time.

    Raises:
        SourceError: there is nothing, or nothing readable.
    """
    network, settings, subhead = load_network(run, device)
    source: Source = _SingleFile(given) if _is_single_image(given) else open_source(given, downloads)
    paths: list[str] = []
    clusters: list[NDArray[np.int32]] = []
    confidence: list[NDArray[np.float32]] = []
    unreadable: dict[str, str] = {}
    waiting: list[NDArray[np.uint8]] = []

    def flush() -> None:
        if waiting:
            inputs = ImageInputs(images_from_array(np.stack(waiting)), RECIPES["none"], device)
            seen = assign(network, inputs, inputs.images.ids, subhead)
            clusters.append(seen.cluster)
            confidence.append(seen.confidence)
            waiting.clear()

    for entry in sorted(source.entries(), key=lambda entry: entry.path):
        try:
            if entry.problem is not None:
                raise UnreadableError(entry.problem)
            _, square = decode(source.read(entry.path), settings.image_size)
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
