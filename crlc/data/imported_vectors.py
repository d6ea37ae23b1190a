"""Vectors that the user imported with a dataset: a feature set that replaces the features of a backbone.

They are stored in the shards of the feature cache, by image id and content version, in half precision if the file has
it, else in float32. `vectors.json` names the current ones. Those of earlier imports stay: runs may use them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from crlc.arrays import ImageIds
from crlc.data.dataset import ImageDataset
from crlc.data.feature_shards import FeatureCache, build_feature_keys
from crlc.data.image_lookup import ImageLookup, read_paths
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import read_content_versions
from crlc.data.vector_files import VectorFile, open_vector_file
from crlc.errors import DamagedError, SourceError, UsageError
from crlc.files import read_json, write_json, writer_lock
from crlc.formatting import format_count, format_list
from crlc.paths import encode_path, to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

VECTORS = "vectors"
"""Name with which a user requests imported vectors as a backbone."""

VECTORS_PREFIX = f"{VECTORS}/"
"""Start of the names of backbones that stand for imported vectors."""

_FILE, _KIND, _VERSION = "vectors.json", "imported-vectors", 1
_ADVICE = "Import the vectors again."
_SHOWN_PATHS = 3
_DIGEST_BYTES = 6
_ORDERED_SOURCES = ("csv", "npz", "builtin")
"""Sources whose listing has an order of its own; other images are ordered by path."""


class _VectorEntries(TypedDict):
    digest: str
    dimensions: int
    count: int
    precision: str
    file: str


@dataclass(frozen=True)
class ImportedVectors:
    """The current imported vectors of a dataset."""

    digest: str
    """Identifies their content and images."""

    dimensions: int
    count: int
    precision: str
    """float16 or float32, as stored."""

    file: str
    """Name of the file that they came from."""

    @property
    def backbone(self) -> str:
        """Name of the backbone that stands for these vectors in settings."""
        return f"{VECTORS_PREFIX}{self.dimensions}-{self.digest}"

    @property
    def folder_name(self) -> str:
        """Folder of their shards below `features/`; also the identity of the backbone."""
        return f"{VECTORS}-{self.digest}"


@dataclass(frozen=True)
class VectorReport:
    """Result of an import of vectors."""

    vectors: ImportedVectors
    is_by_path: bool
    """True if the file names the images; False if its rows are in their order."""

    unmatched: int
    """Number of vectors whose path names no readable image."""


def read_imported_vectors(dataset: ImageDataset) -> ImportedVectors | None:
    """Return the current imported vectors of a dataset; `None` if there are none.

    Raises:
        DamagedError: their description is damaged: features of a backbone must not replace them unnoticed.
        AccessError: the user has no permission to read it.
    """
    if not os.path.lexists(dataset.folder / _FILE):
        return None
    content = read_json(dataset.folder / _FILE, _KIND, _VERSION, _ADVICE, _VectorEntries)
    return ImportedVectors(**{name: content[name] for name in _VectorEntries.__annotations__})


def count_images_without_vectors(dataset: ImageDataset, vectors: ImportedVectors) -> int:
    """Return the number of readable images that were added or changed after the vectors were imported.

    Raises:
        DamagedError: the stored vectors are damaged.
    """
    with Manifest(dataset.folder) as manifest:
        ids, versions = read_content_versions(manifest)
    cache = FeatureCache(dataset.features_folder / vectors.folder_name)
    require_whole_vectors(cache)
    return int((~cache.contains(build_feature_keys(ids, versions))).sum())


def require_whole_vectors(cache: FeatureCache) -> None:
    """Raise if stored vectors are damaged: unlike features of a backbone, they cannot be computed again.

    Raises:
        DamagedError: a shard cannot be read.
    """
    if cache.damaged_files:
        raise DamagedError(f"The imported vectors in {cache.damaged_files[0]} are damaged.", advice=_ADVICE)


def import_vectors(dataset: ImageDataset, file: Path, report: ProgressCallback = no_progress) -> VectorReport:
    """Store the vectors of all readable images of a dataset.

    Args:
        dataset: a completely imported dataset.
        file: .npy, .npz or .parquet. With paths, in the form that the dataset or this computer has, each vector belongs
            to that image. Without, its rows must be in the order of the images: that of the list for .csv and .npz,
            else sorted by path.
        report: receives progress.

    Raises:
        SourceError: the file cannot be read; a value is not finite; or vectors are missing.
    """
    opened = open_vector_file(file)
    ids, unmatched = _find_images(dataset, opened)
    building = dataset.features_folder / f".{VECTORS}-{uuid.uuid4().hex}.part"
    with writer_lock(dataset.folder / "vectors.lock", f"The vectors of {dataset.name}"):
        try:
            vectors = _write_shards(dataset, opened, ids, building, file.name, report)
            target = building.with_name(vectors.folder_name)
            if target.exists() and not FeatureCache(target).damaged_files:  # the same vectors were imported before
                shutil.rmtree(building)
            else:
                shutil.rmtree(target, ignore_errors=True)
                building.rename(target)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        write_json(dataset.folder / _FILE, {"kind": _KIND, "version": _VERSION, **vars(vectors)})
    return VectorReport(vectors, opened.paths is not None, unmatched)


def _write_shards(
    dataset: ImageDataset, file: VectorFile, ids: ImageIds, building: Path, name: str, report: ProgressCallback
) -> ImportedVectors:
    """Write the vectors of all rows with an image; `ids` has 0 for the others."""
    with Manifest(dataset.folder) as manifest:
        known, versions = read_content_versions(manifest)
    version_by_id = np.zeros(int(max(known.max(initial=0), ids.max(initial=0))) + 1, np.int64)
    version_by_id[known] = versions
    cache, digest = FeatureCache(building), hashlib.blake2b(digest_size=_DIGEST_BYTES)
    stage = ProgressStage("Importing vectors", file.count, report)
    start, precision = 0, "float32"
    for chunk in file.iterate_chunks():
        rows = np.flatnonzero(ids[start : start + len(chunk)])
        images, features = ids[start + rows], np.ascontiguousarray(chunk[rows])
        if len(rows):
            keys = build_feature_keys(images, version_by_id[images])
            cache.add(keys, features)
            digest.update(keys.tobytes())
            digest.update(features.tobytes())
            precision = str(features.dtype)
        start += len(chunk)
        stage.advance(len(chunk))
    stage.finish()
    return ImportedVectors(digest.hexdigest(), file.dimensions, int((ids > 0).sum()), precision, to_printable(name))


def _find_images(dataset: ImageDataset, file: VectorFile) -> tuple[ImageIds, int]:
    """Return the image id of each row, 0 for rows without a readable image, and the number of those."""
    with Manifest(dataset.folder) as manifest:
        readable = set(read_content_versions(manifest)[0].tolist())
    if not readable:
        raise UsageError(f"{dataset.name} has no readable images.")
    by_path = file.paths
    ids = _match_in_order(dataset, file) if by_path is None else _match_by_path(dataset, by_path, file.location)
    ids = np.where(np.isin(ids, list(readable)), ids, 0)
    missing = sorted(readable.difference(ids.tolist()))
    if missing:
        named = np.array(missing[:_SHOWN_PATHS], np.int64)
        paths = [to_printable(path) for _, path in read_paths(dataset, named)]
        raise SourceError(
            f"{file.location} has no vector for {format_count(len(missing), 'image')} of {dataset.name}: "
            f"{format_list(paths, _SHOWN_PATHS)}{' ...' if len(missing) > len(paths) else ''}.",
            advice="Add their vectors, or import a list (.csv) of the images that have one.",
        )
    return ids, int((ids == 0).sum()) if file.paths is not None else 0


def _match_in_order(dataset: ImageDataset, file: VectorFile) -> ImageIds:
    """Return the image of each row of a file without paths. Unreadable files may have rows, too, or be left out."""
    listed = list(_list_ordered_ids(dataset))
    readable = [number for number, is_readable in listed if is_readable]
    if file.count == len(listed):
        return np.array([number for number, _ in listed], np.int64)
    if file.count == len(readable):
        return np.array(readable, np.int64)
    counts = f"{len(readable):,}" if len(readable) == len(listed) else f"{len(readable):,} readable of {len(listed):,}"
    raise SourceError(
        f"{file.location} has {file.count:,} vectors, but {dataset.name} has {counts} images.",
        advice="Give one vector per image in the order of the images, or a file with paths (.npz, .parquet).",
    )


def _list_ordered_ids(dataset: ImageDataset) -> Iterator[tuple[int, bool]]:
    """Yield id and readability of all images, in the order of the list, or else of their paths."""
    with Manifest(dataset.folder) as manifest:
        records = list(manifest.read_records("status IN ('ok', 'unreadable')"))
    if dataset.info.source_kind in _ORDERED_SOURCES:
        by_path = {record.path: record for record in records}
        found: Sequence[str] = [entry.path for entry in dataset.source.list_entries()]
        records = [by_path[path] for path in dict.fromkeys(found) if path in by_path]
    else:
        records.sort(key=lambda record: encode_path(record.path))
    for record in records:
        yield record.id, record.status == "ok"


def _match_by_path(dataset: ImageDataset, paths: Sequence[str], location: str) -> ImageIds:
    ids = np.zeros(len(paths), np.int64)
    with ImageLookup(dataset) as lookup:
        for row, path in enumerate(paths):
            ids[row] = lookup.find_by_path(path) or 0
    used, counts = np.unique(ids[ids > 0], return_counts=True)
    if (counts > 1).any():
        twice = paths[int(np.flatnonzero(ids == used[counts > 1][0])[1])]
        raise SourceError(f"{location} has more than one vector for {to_printable(twice)}.", advice="Keep one of them.")
    if not len(used):
        raise SourceError(
            f"None of the {len(paths):,} paths in {location} is an image of {dataset.name}; the first is "
            f"{to_printable(paths[0])}.",
            advice="Write paths as the dataset has them, relative to its folder, or absolute.",
        )
    return ids
