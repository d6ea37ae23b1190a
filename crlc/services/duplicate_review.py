"""Review of duplicates: groups with the best image first, exclusion of the rest, and a list for moving files."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO

import numpy as np
from PIL import Image

from crlc.annotations.kept_duplicates import read_kept_duplicates, set_kept_duplicates
from crlc.annotations.operations import Exclude, Include, OperationGroup, SingleOperation
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore, HistoryEntry
from crlc.arrays import ImageIds
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.data.manifest import ImageRecord
from crlc.data.originals import find_original
from crlc.data.pixel_statistics import measure_pixels
from crlc.errors import UsageError
from crlc.formatting import format_count
from crlc.paths import escape_formula, to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress
from crlc.services.analyse_run import SimilarImages
from crlc.services.duplicates import DEFAULT_MAX_BITS, find_equal_files, find_similar_images

_IMAGES_PER_BATCH = 1024
_KEY_BYTES = 8
LIST_COLUMNS = ("group", "action", "decided", "path", "absolute_path", "width", "height", "bytes")
"""Columns of the list for moving files."""


class DuplicateImage(NamedTuple):
    """One image of a group of duplicates."""

    id: int
    path: str
    width: int
    height: int
    bytes: int
    hash: str
    sharpness: float
    """Sharpness of the stored pixels, as in `PixelStatistics`."""


@dataclass(frozen=True)
class DuplicateSet:
    """A group of duplicates; the image that is proposed to keep comes first."""

    images: tuple[DuplicateImage, ...]
    score: float
    """Similarity of the least similar pair that connects the group, up to 1."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the images, the proposed one first."""
        return tuple(image.id for image in self.images)

    @property
    def is_exact(self) -> bool:
        """True if all files have the same content."""
        return len({image.hash for image in self.images}) == 1

    @property
    def key(self) -> str:
        """Text that identifies the group: the same images have the same key."""
        ids = " ".join(map(str, sorted(self.ids)))
        return hashlib.blake2b(ids.encode(), digest_size=_KEY_BYTES).hexdigest()


def find_duplicate_sets(
    dataset: ImageDataset,
    *,
    exact: bool = False,
    bits: int = DEFAULT_MAX_BITS,
    report: ProgressCallback = no_progress,
) -> list[DuplicateSet]:
    """Find groups of duplicates, largest first. Excluded images are included: they may be decided already.

    Args:
        dataset: dataset to search.
        exact: only files with the same content, which needs no pixels.
        bits: otherwise, maximum number of bits in which two 64-bit perceptual hashes may differ, 0 to 4.
        report: receives progress.

    Raises:
        UsageError: `bits` is out of range.
        NotFoundError: the import is not finished.
    """
    everything = AnnotationState()
    groups = find_equal_files(dataset, everything) if exact else find_similar_images(dataset, everything, bits, report)
    return build_duplicate_sets(dataset, groups, report)


def build_duplicate_sets(
    dataset: ImageDataset, groups: Sequence[SimilarImages], report: ProgressCallback = no_progress
) -> list[DuplicateSet]:
    """Return groups of images with the best image first: the largest, then the sharpest, then the largest file."""
    ids = np.unique(np.concatenate([np.empty(0, np.int64), *(group.ids for group in groups)])).astype(np.int64)
    records, sharpness = read_records(dataset, ids), _measure_images(dataset, ids, report)
    sets = []
    for group in groups:
        images = [_build_image(records[number], sharpness[number]) for number in group.ids.tolist()]
        sets.append(DuplicateSet(tuple(sorted(images, key=_rank)), group.score))
    return sets


def find_undecided(
    dataset: ImageDataset, annotations: AnnotationState, sets: Iterable[DuplicateSet]
) -> list[DuplicateSet]:
    """Return the groups of which more than one image is left, unless the user keeps exactly these images."""
    kept = read_kept_duplicates(dataset)
    undecided = []
    for one in sets:
        remaining = _find_remaining(annotations, one)
        if len(remaining) > 1 and frozenset(remaining) not in kept:
            undecided.append(one)
    return undecided


def keep_images(
    dataset: ImageDataset, annotations: AnnotationStore, group: Collection[int], keep: Collection[int]
) -> HistoryEntry | None:
    """Keep some images of a group and exclude the others, as one operation that can be undone.

    Args:
        dataset: dataset of the images.
        annotations: its annotations.
        group: ids of all images of the group.
        keep: ids of those to keep, at least one.

    Returns:
        The new entry of the history, or `None` if no exclusion changes.

    Raises:
        UsageError: no image or a foreign one would be kept.
        CrlcError: the annotations cannot be written.
    """
    kept, rest = sorted(set(keep)), sorted(set(group) - set(keep))
    if not kept or not set(kept) <= set(group):
        raise UsageError("At least one image of the group must be kept, and only images of the group.")
    annotations.require_images(np.array([*kept, *rest], np.int64))

    def make(state: AnnotationState) -> OperationGroup | None:
        out, back = _select(state, rest, excluded=False), _select(state, kept, excluded=True)
        operations: list[SingleOperation] = [Exclude(out)] if out else []
        if back:
            operations.append(Include(back))
        title = f"keep {len(kept):,} of {format_count(len(kept) + len(rest), 'duplicate')}"
        return OperationGroup(tuple(operations), title) if operations else None

    entry = annotations.record(make)
    if len(kept) > 1:
        set_kept_duplicates(dataset, kept, is_kept=True)
    return entry


def exclude_redundant_images(
    dataset: ImageDataset, annotations: AnnotationStore, sets: Iterable[DuplicateSet]
) -> HistoryEntry | None:
    """Exclude all but the best image of every undecided group, as one operation that can be undone.

    Returns:
        The new entry of the history, or `None` if no group is undecided.
    """
    state = annotations.refresh()
    redundant = [number for one in find_undecided(dataset, state, sets) for number in _find_remaining(state, one)[1:]]
    return annotations.exclude(redundant) if redundant else None


def write_duplicate_list(
    dataset: ImageDataset, annotations: AnnotationState, sets: Sequence[DuplicateSet], stream: TextIO
) -> int:
    """Write a CSV list with the action for each image, `keep` or `move`, and return the number of images to move.

    Excluded images are to be moved. In undecided groups, all but the proposed image are; their column `decided` is no.
    No file is moved: any file manager, script or spreadsheet can use the list.
    """
    undecided = {one.key for one in find_undecided(dataset, annotations, sets)}
    writer = csv.writer(stream)
    writer.writerow(LIST_COLUMNS)
    moved = 0
    for number, one in enumerate(sets, start=1):
        remaining = _find_remaining(annotations, one)
        is_decided = one.key not in undecided
        kept = remaining if is_decided else remaining[:1]
        for image in one.images:
            is_moved = image.id not in kept
            moved += is_moved
            original = find_original(dataset, image.path)
            texts = [escape_formula(to_printable(text)) for text in (image.path, str(original or ""))]
            action, decided = "move" if is_moved else "keep", "yes" if is_decided else "no"
            writer.writerow((number, action, decided, *texts, image.width, image.height, image.bytes))
    return moved


def _find_remaining(annotations: AnnotationState, group: DuplicateSet) -> list[int]:
    """Return the ids of the images that are not excluded, the best first."""
    return [*_select(annotations, group.ids, excluded=False)]


def _select(annotations: AnnotationState, ids: Sequence[int], *, excluded: bool) -> tuple[int, ...]:
    if not ids:
        return ()
    given = np.array(ids, np.int64)
    return tuple(given[annotations.is_excluded(given) == excluded].tolist())


def _measure_images(dataset: ImageDataset, ids: ImageIds, report: ProgressCallback) -> dict[int, float]:
    store = dataset.open_pixels(dataset.get_default_size())
    stage = ProgressStage("Comparing images", len(ids), report)
    found: dict[int, float] = {}
    for start in range(0, len(ids), _IMAGES_PER_BATCH):
        batch = ids[start : start + _IMAGES_PER_BATCH]
        for number, pixels in zip(batch.tolist(), store.read(batch), strict=True):
            found[number] = measure_pixels(Image.fromarray(pixels)).sharpness
        stage.advance(len(batch))
    stage.finish()
    return found


def _build_image(record: ImageRecord, sharpness: float) -> DuplicateImage:
    width, height, content_hash = record.width or 0, record.height or 0, record.hash or ""
    return DuplicateImage(record.id, record.path, width, height, record.bytes, content_hash, sharpness)


def _rank(image: DuplicateImage) -> tuple[float, ...]:
    """Sort key: the image to keep first. Of equal images, the one with the shortest path, then the first imported."""
    return (-image.width * image.height, -image.sharpness, -image.bytes, len(image.path), image.id)
