"""Near duplicates in a dataset, found by perceptual hashes of the stored pixels; no run is needed."""

from __future__ import annotations

import numpy as np

from crlc.analysis.near_duplicates import check_max_bits, find_duplicates_by_hash
from crlc.analysis.perceptual_hash import concatenate_hashes, hash_images
from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
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
