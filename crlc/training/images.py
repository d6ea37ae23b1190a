"""The images of a run, as the trainer sees them: positions from 0 to N - 1, read a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augment import to_images
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError

LEAST_IMAGES = 2
UNLABELLED = "unlabelled"


@dataclass(frozen=True)
class TrainingImages:
    """Which images, how to read them, and what is known of them."""

    ids: NDArray[np.int64]
    size: int
    read: Callable[[NDArray[np.int64]], NDArray[np.uint8]]
    """From ids to stored pixels, (B, size, size, 3)."""

    classes: NDArray[np.int64] | None = None
    """For reporting only: the number of each image's class, -1 where unknown; none where all are."""

    clusterable: NDArray[np.bool_] | None = None
    """False for images that train the RL-head only (unlabelled parts of a benchmark); none for all true."""

    versions: NDArray[np.int64] | None = None
    """When each image's content arrived: what was computed of an older content is out of date."""

    features: Path | None = None
    """Where vectors of pretrained backbones are kept; none where there is no such place."""

    def __len__(self) -> int:
        """N."""
        return len(self.ids)

    def pixels(self, positions: NDArray[np.int64] | Tensor) -> Tensor:
        """Stored pixels of some images, uint8, (B, size, size, 3)."""
        return torch.from_numpy(self.read(self.ids[np.asarray(positions)]))

    def batch(self, positions: NDArray[np.int64] | Tensor, device: torch.device) -> Tensor:
        """Some images on the device, floats from 0 to 1, (B, 3, size, size)."""
        return to_images(self.pixels(positions).to(device, non_blocking=True))

    def sample(self, count: int) -> Tensor:
        """Stored pixels of a few images, at even distances."""
        return self.pixels(np.linspace(0, len(self) - 1, min(count, len(self))).astype(np.int64))


def images_of(
    dataset: ImageDataset, size: int, *, split: str | None = None, cluster_unlabelled: bool = True
) -> TrainingImages:
    """The readable images of a data set at one size.

    Args:
        dataset: the data set.
        size: which of its pixel stores.
        split: only images of these splits, joined by `+`.
        cluster_unlabelled: false to let images of the split `unlabelled` train the RL-head only.

    Raises:
        UsageError: no image is of such a split.
    """
    store = dataset.pixels(size)
    facts = dataset.facts(store.ids)
    unlabelled = facts.splits == UNLABELLED
    clusterable = None if cluster_unlabelled or not unlabelled.any() else ~unlabelled
    images = TrainingImages(
        store.ids, size, store.read, facts.class_numbers, clusterable, facts.versions, dataset.folder / "features"
    )
    if split is None:
        return images
    chosen = np.isin(facts.splits, split.split("+"))
    if not chosen.any():
        there = ", ".join(sorted({str(name) for name in facts.splits if name})) or "none"
        raise UsageError(f"split={split!r}: {dataset.name} has no images of it. Its splits: {there}.")
    return at_positions(images, np.flatnonzero(chosen))


def at_positions(images: TrainingImages, positions: NDArray[np.int64]) -> TrainingImages:
    """Some of the images, with all that is known of them."""

    def part(known: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if known is None else known[positions]

    return replace(
        images,
        ids=images.ids[positions],
        classes=part(images.classes),
        clusterable=part(images.clusterable),
        versions=part(images.versions),
    )


def only(images: TrainingImages, ids: NDArray[np.int64]) -> TrainingImages:
    """The part of the images that has these ids, in order of id.

    Raises:
        UsageError: some are not there any more.
    """
    if not len(images.ids):
        raise UsageError("The images of this run are not in the data set any more. Train again.")
    places = np.searchsorted(images.ids, ids)
    missing = int((places >= len(images.ids)).sum() + (images.ids[np.minimum(places, len(images) - 1)] != ids).sum())
    if missing:
        raise UsageError(f"{missing} images of this run are not in the data set any more. Train again.")
    return at_positions(images, places)


def without(images: TrainingImages, excluded: NDArray[np.int64]) -> TrainingImages:
    """All images but those that a person excluded.

    Raises:
        UsageError: nothing is left.
    """
    left = np.flatnonzero(~np.isin(images.ids, excluded))
    if len(images) and not len(left):
        raise UsageError("All images of this data set are excluded. Include some: crlc label DATASET include IMAGE...")
    return images if len(left) == len(images) else at_positions(images, left)


def images_from_array(pixels: NDArray[np.uint8]) -> TrainingImages:
    """Images in memory, (N, size, size, 3) uint8."""
    return TrainingImages(np.arange(1, len(pixels) + 1), pixels.shape[1], lambda ids: pixels[ids - 1])


def require_enough(images: TrainingImages, clusters: int, processes: int = 1) -> None:
    """Refuse what cannot be clustered.

    Raises:
        UsageError: fewer than two images, or fewer than clusters or processes.
    """
    if len(images) < processes:
        raise UsageError(f"devices={processes} is not allowed: there are only {len(images)} images.")
    count = len(images) if images.clusterable is None else int(images.clusterable.sum())
    if count < LEAST_IMAGES:
        raise UsageError(f"Training needs at least {LEAST_IMAGES} readable images to cluster; there are {count}.")
    if count < clusters:
        raise UsageError(f"clusters={clusters} is not allowed: there are only {count} images. Choose fewer clusters.")
