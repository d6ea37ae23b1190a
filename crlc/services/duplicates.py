"""Duplicates in a dataset: equal files, and similar images by perceptual hashes of stored pixels; no run is needed."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from crlc.analysis.near_duplicates import check_max_bits, find_duplicates_by_hash
from crlc.analysis.perceptual_hash import concatenate_hashes, hash_images
from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, ProgressStage, no_progress
from crlc.services.analyse_run import SimilarImages

_IMAGES_PER_BATCH = 1024
DEFAULT_MAX_BITS = 3
"""Maximum number of bits in which the 64-bit hashes of near duplicates differ."""


def find_similar_images(
    dataset: ImageDataset,
    annotations: AnnotationState,
    bits: int = DEFAULT_MAX_BITS,
    report: ProgressCallback = no_progress,
) -> list[SimilarImages]:
    """Find groups of similar images, largest first, without excluded images.

    Args:
        dataset: dataset to search.
        annotations: annotations of the dataset, for its exclusions.
        bits: maximum number of bits in which two 64-bit hashes may differ, 0 to 4.
        report: receives progress.

    Raises:
        UsageError: `bits` is out of range, or all images are excluded.
        NotFoundError: the import is not finished.
    """
    check_max_bits(bits)
    store = dataset.open_pixels(dataset.get_default_size())
    ids = store.ids[~annotations.is_excluded(store.ids)]
    if not len(ids):
        raise UsageError(f"All images of {dataset.name} are excluded.")
    stage = ProgressStage("Reading images", len(ids), report)
    parts = []
    for start in range(0, len(ids), _IMAGES_PER_BATCH):
        batch = ids[start : start + _IMAGES_PER_BATCH]
        parts.append(hash_images(store.read(batch)))
        stage.advance(len(batch))
    stage.finish()
    return [
        SimilarImages(np.asarray(ids[group.rows]), group.score)
        for group in find_duplicates_by_hash(concatenate_hashes(parts), bits)
    ]


def find_equal_files(dataset: ImageDataset, annotations: AnnotationState) -> list[SimilarImages]:
    """Find groups of files with the same content, largest first, without excluded images.

    Args:
        dataset: dataset to search.
        annotations: annotations of the dataset, for its exclusions.
    """
    ids = dataset.find_duplicates()
    by_hash: defaultdict[str | None, list[int]] = defaultdict(list)
    for number, record in read_records(dataset, ids[~annotations.is_excluded(ids)]).items():
        by_hash[record.hash].append(number)
    groups = [SimilarImages(np.array(sorted(found), np.int64), 1.0) for found in by_hash.values() if len(found) > 1]
    return sorted(groups, key=lambda group: (-len(group.ids), int(group.ids[0])))
