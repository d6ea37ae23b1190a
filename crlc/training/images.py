"""Images of a run as the trainer reads them: positions from 0 to N - 1, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augmentation import to_images
from crlc.data.dataset import ImageDataset
from crlc.data.whole_images import WholeImageReader, WholeImages
from crlc.errors import UsageError

MIN_IMAGES = 2
UNLABELLED_SPLIT = "unlabelled"


@dataclass(frozen=True)
class TrainingImages:
    """The images of a run: their ids, a function that reads their pixels, and their metadata."""

    ids: NDArray[np.int64]
    size: int
    read: Callable[[NDArray[np.int64]], NDArray[np.uint8]]
    """Reads stored pixels by image id, (B, size, size, 3)."""

    classes: NDArray[np.int64] | None = None
    """Class number of each image, -1 where unknown; `None` where no class is known. For reporting only."""

    clusterable: NDArray[np.bool_] | None = None
    """Whether L_cluster is computed for an image; `None` for all. False for the unlabelled part of a benchmark,
    which trains the RL-head only (as the paper does with STL10)."""

    content_versions: NDArray[np.int64] | None = None
    """Manifest version in which the content of each image was imported; features of older content are stale."""

    feature_folder: Path | None = None
    """Folder of the dataset that caches features of pretrained backbones; `None` where there is none."""

    read_whole: Callable[[NDArray[np.int64], int], WholeImages] | None = None
    """Reads whole originals by image id, stretched to squares of a size; `None` for images in memory."""

    @classmethod
    def from_array(cls, pixels: NDArray[np.uint8]) -> TrainingImages:
        """Wrap images in memory, (N, size, size, 3); their ids are 1 to N."""
        return cls(np.arange(1, len(pixels) + 1), pixels.shape[1], lambda ids: pixels[ids - 1])

    def __len__(self) -> int:
        """Return the number of images N."""
        return len(self.ids)

    def list_clusterable(self) -> NDArray[np.int64]:
        """Return the positions of the images that L_cluster is computed for."""
        return np.arange(len(self)) if self.clusterable is None else np.flatnonzero(self.clusterable)

    def read_pixels(self, positions: NDArray[np.int64] | Tensor) -> Tensor:
        """Return stored pixels of some images, uint8, (B, size, size, 3)."""
        return torch.from_numpy(self.read(self.ids[np.asarray(positions)]))

    def load_batch(self, positions: NDArray[np.int64] | Tensor, device: torch.device) -> Tensor:
        """Return some images on a device, as floats from 0 to 1, (B, 3, size, size)."""
        # Non-blocking copies to an Apple GPU may read memory that is already released (pytorch/pytorch issue 189690).
        return to_images(self.read_pixels(positions).to(device, non_blocking=device.type == "cuda"))

    def sample_pixels(self, count: int) -> Tensor:
        """Return stored pixels of up to `count` evenly spaced images, uint8, (B, size, size, 3)."""
        return self.read_pixels(np.linspace(0, len(self) - 1, min(count, len(self))).astype(np.int64))


def load_images(
    dataset: ImageDataset,
    size: int,
    *,
    split: str | None = None,
    cluster_unlabelled: bool = True,
    decoded_so_far: bool = False,
) -> TrainingImages:
    """Return the readable images of a dataset at one size.

    Args:
        dataset: the dataset to read from.
        size: side of the stored images in pixels, which selects one of the dataset's pixel stores.
        split: splits to use, joined by `+`; all images by default.
        cluster_unlabelled: False to let images of the split `unlabelled` train the RL-head only.
        decoded_so_far: True to load those that an unfinished first import has decoded so far, too.

    Raises:
        NotFoundError: no images are stored at that size, for example because the import did not finish.
        UsageError: no image belongs to the split.
    """
    store = dataset.open_pixels(size, decoded_so_far=decoded_so_far)
    metadata = dataset.read_metadata(store.ids)
    unlabelled = metadata.splits == UNLABELLED_SPLIT
    clusterable = None if cluster_unlabelled or not unlabelled.any() else ~unlabelled
    images = TrainingImages(
        store.ids,
        size,
        store.read,
        metadata.class_numbers,
        clusterable,
        metadata.versions,
        dataset.features_folder,
        WholeImageReader(dataset).read,
    )
    if split is None:
        return images
    is_in_split = np.isin(metadata.splits, split.split("+"))
    if not is_in_split.any():
        available = ", ".join(sorted({str(name) for name in metadata.splits if name})) or "none"
        raise UsageError(f"split={split!r} is not allowed: {dataset.name} has no such split. Its splits: {available}.")
    return select_positions(images, np.flatnonzero(is_in_split))


def select_positions(images: TrainingImages, positions: NDArray[np.int64]) -> TrainingImages:
    """Return the images at the given positions, with their metadata."""

    def select(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values is None else values[positions]

    return replace(
        images,
        ids=images.ids[positions],
        classes=select(images.classes),
        clusterable=select(images.clusterable),
        content_versions=select(images.content_versions),
    )


def select_ids(images: TrainingImages, ids: NDArray[np.int64]) -> TrainingImages:
    """Return the images with the given ids.

    Args:
        images: images in ascending order of id.
        ids: the ids to select, in the order of the result.

    Raises:
        UsageError: some of them are no longer in the dataset.
    """
    if not len(images.ids):
        raise UsageError("The images of this run are no longer in the dataset.", advice="Train again.")
    positions = np.searchsorted(images.ids, ids)
    missing = int((images.ids[np.minimum(positions, len(images) - 1)] != ids).sum())
    if missing:
        raise UsageError(f"{missing:,} images of this run are no longer in the dataset.", advice="Train again.")
    return select_positions(images, positions)


def exclude_ids(images: TrainingImages, excluded: NDArray[np.int64]) -> TrainingImages:
    """Return the images without those that the user excluded.

    Raises:
        UsageError: no image is left.
    """
    remaining = np.flatnonzero(~np.isin(images.ids, excluded))
    if len(images) and not len(remaining):
        raise UsageError("All images of this dataset are excluded.", advice="Include some of them again.")
    return images if len(remaining) == len(images) else select_positions(images, remaining)


def require_enough_images(images: TrainingImages, clusters: int, processes: int = 1) -> None:
    """Check that there are enough images to train on.

    Raises:
        UsageError: there are fewer than two images to cluster, or fewer images than clusters or processes.
    """
    if len(images) < processes:
        raise UsageError(f"devices={processes} is not allowed: there are only {len(images)} images.")
    count = len(images.list_clusterable())
    if count < MIN_IMAGES:
        raise UsageError(f"There must be at least {MIN_IMAGES} readable images to cluster; there are {count}.")
    if count < clusters:
        raise UsageError(
            f"clusters={clusters} is not allowed: there are only {count} images.", advice="Choose fewer clusters."
        )
