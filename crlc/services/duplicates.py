"""Duplicates in a dataset: equal files, and similar images by perceptual hashes of stored pixels; no run is needed."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from crlc.analysis.near_duplicates import check_max_bits, find_duplicates_by_hash
from crlc.analysis.perceptual_hash import concatenate_hashes, hash_images
from crlc.annotations.state import AnnotationState
from crlc.arrays import BoolArray, ImageIds
from crlc.data.column_reader import list_columns, read_columns
from crlc.data.columns import QUALITY, UNIFORM
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

    All uniform images, such as paper or the sky, have similar hashes: only equal files are duplicates among them.

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
    is_uniform = _find_uniform_images(dataset, ids)
    hashed = np.asarray(ids[~is_uniform])
    stage = ProgressStage("Reading images", len(hashed), report)
    parts = []
    for start in range(0, len(hashed), _IMAGES_PER_BATCH):
        batch = hashed[start : start + _IMAGES_PER_BATCH]
        parts.append(hash_images(store.read(batch)))
        stage.advance(len(batch))
    stage.finish()
    similar = find_duplicates_by_hash(concatenate_hashes(parts), bits)
    groups = [SimilarImages(hashed[group.rows], group.score) for group in similar]
    if is_uniform.any():
        equal = find_equal_files(dataset, annotations)
        groups += [group for group in equal if np.isin(group.ids, ids[is_uniform]).all()]
    return _sort_groups(groups)


def _find_uniform_images(dataset: ImageDataset, ids: ImageIds) -> BoolArray:
    """Return the mask (N,) of the images whose quality is `uniform`; none before the import has measured it."""
    infos = [info for info in list_columns(dataset) if info.name == QUALITY]
    if not infos:
        return np.zeros(len(ids), np.bool_)
    (quality,) = read_columns(dataset, infos, ids)
    is_uniform: BoolArray = quality.values == quality.names.index(UNIFORM)
    return is_uniform


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
    return _sort_groups(groups)


def _sort_groups(groups: list[SimilarImages]) -> list[SimilarImages]:
    return sorted(groups, key=lambda group: (-len(group.ids), int(group.ids[0])))
