"""Reader of an imported dataset: its description, its images and their pixels."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, TypedDict

import numpy as np
from numpy.typing import NDArray

from crlc.data.manifest import ImageRecord, Manifest
from crlc.data.manifest_columns import read_content_versions
from crlc.data.manifest_rows import DAMAGED_ADVICE
from crlc.data.options import ImportOptions
from crlc.data.pixel_store import PixelStore, list_stored_sizes, measure_stored_bytes
from crlc.data.sources import Source
from crlc.data.sources.opening import open_source
from crlc.errors import DamagedError, NotFoundError, SourceError, UsageError
from crlc.files import read_json, write_json
from crlc.paths import escape_formula, to_printable

INFO_FILE = "dataset.json"
RELINK_ADVICE = "If the originals moved, relink the dataset to their new location."
_KIND, _VERSION = "dataset", 1
_MAX_SINGLE_LOOKUPS = 1_000
_HAS_COPIES = (
    "status = 'ok' AND hash IN (SELECT hash FROM images WHERE status = 'ok' GROUP BY hash HAVING COUNT(*) > 1)"
)
"""Up to this number, ids are looked up one by one; beyond it, the whole table is read at once."""


class _DatasetEntries(TypedDict):
    """Schema of dataset.json; the values of the options are checked by `ImportOptions`."""

    name: str
    uid: str
    source_kind: str
    location: str
    downloads: str
    options: dict[str, Any]
    created: str
    size: int | None


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a dataset, stored in dataset.json: its name, its source and how it was imported."""

    name: str
    uid: str
    """Unique id, which distinguishes datasets that have the same name at different times."""

    source_kind: str
    location: str
    """Absolute path of the source, or name of a built-in dataset."""

    downloads: str
    """Folder of the downloaded built-in datasets."""

    options: ImportOptions
    created: str
    """Time of the first import, in ISO 8601 format."""

    size: int | None = None
    """Size in pixels that the first import chose; `None` until it is finished."""

    def save(self, folder: Path) -> None:
        """Write dataset.json to the folder of the dataset."""
        content: dict[str, Any] = {"kind": _KIND, "version": _VERSION, **vars(self), "options": self.options.to_json()}
        write_json(folder / INFO_FILE, content)

    @classmethod
    def load(cls, folder: Path) -> DatasetInfo:
        """Read dataset.json from the folder of a dataset.

        Raises:
            DamagedError: the file cannot be read.
        """
        content = read_json(folder / INFO_FILE, _KIND, _VERSION, DAMAGED_ADVICE, _DatasetEntries)
        try:
            fields = {name: content[name] for name in cls.__dataclass_fields__}
            return cls(**{**fields, "options": ImportOptions(**content["options"])})
        except (TypeError, UsageError) as error:
            raise DamagedError(
                f"{folder / INFO_FILE} has a wrong or missing entry: {error}.", advice=DAMAGED_ADVICE
            ) from None


@dataclass(frozen=True)
class DatasetSummary:
    """Counts of a dataset at one time."""

    readable: int
    unreadable: dict[str, int]
    """Number of unreadable files by reason."""

    pending: int
    """Number of images that are listed but not decoded yet."""

    duplicates: int
    """Number of images that are exact copies of an earlier one."""

    classes: dict[str, int]
    """Number of images by class."""

    splits: dict[str, int]
    """Number of images by split."""

    sizes: tuple[int, ...]
    """Sizes in pixels of the complete pixel stores, ascending."""

    complete: bool
    """Whether the last import finished."""

    version: int
    """Number of finished imports."""

    pixel_bytes: int


@dataclass(frozen=True)
class ImageMetadata:
    """Classes, splits and content versions of some images."""

    class_names: tuple[str, ...]
    class_numbers: NDArray[np.int64] | None
    """Index into `class_names`, -1 where unknown; `None` if no image has a class."""

    splits: NDArray[np.object_]
    """The split of each image, or `None`."""

    versions: NDArray[np.int64]
    """Version of the manifest in which the content of each image was imported."""


class ImageDataset:
    """Reader of one dataset. It is cheap to create, and opens the manifest for every call."""

    def __init__(self, folder: Path) -> None:
        """Read the description of the dataset.

        Raises:
            DamagedError: its files cannot be read.
        """
        self.folder = folder
        self.info = DatasetInfo.load(folder)

    def __eq__(self, other: object) -> bool:
        """Return whether folder and description are equal."""
        return isinstance(other, ImageDataset) and (self.folder, self.info) == (other.folder, other.info)

    def __hash__(self) -> int:
        """Return a hash of folder and description."""
        return hash((self.folder, self.info))

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.info.name

    @property
    def features_folder(self) -> Path:
        """Folder with the cached features of backbones and the imported vectors."""
        return self.folder / "features"

    @property
    def exploration_folder(self) -> Path:
        """Folder with the arrays and maps of the exploration."""
        return self.folder / "exploration"

    @property
    def version(self) -> int:
        """Number of finished imports. Data read from an older version may be stale."""
        with Manifest(self.folder) as manifest:
            return manifest.version

    def count_changed_since(self, version: int) -> int:
        """Return the number of images whose content has changed since a version of the manifest."""
        with Manifest(self.folder) as manifest:
            return manifest.count_changed_since(version)

    def has_content_since(self, version: int) -> bool:
        """Return whether an import after a version of the manifest added or changed a readable image."""
        with Manifest(self.folder) as manifest:
            return manifest.has_content_since(version)

    @cached_property
    def source(self) -> Source:
        """The source of the original images, opened once.

        Raises:
            SourceError: the originals have been moved or removed.
        """
        try:
            return open_source(self.info.location, Path(self.info.downloads))
        except SourceError as error:
            raise SourceError(error.message, advice=f"{error.advice} {RELINK_ADVICE}".strip()) from None

    def summarize(self) -> DatasetSummary:
        """Count images, classes, splits and bytes of the dataset."""
        with Manifest(self.folder) as manifest:
            sizes = list_stored_sizes(self.folder, complete=True)
            return DatasetSummary(
                readable=manifest.count("ok"),
                unreadable=manifest.count_unreadable_reasons(),
                pending=manifest.count("pending"),
                duplicates=manifest.count_exact_duplicates(),
                classes=manifest.count_by("class"),
                splits=manifest.count_by("split"),
                sizes=sizes,
                complete=manifest.is_complete,
                version=manifest.version,
                pixel_bytes=measure_stored_bytes(self.folder),
            )

    def get_default_size(self) -> int:
        """Return the size in pixels that the first import chose, regardless of sizes added later.

        Raises:
            NotFoundError: the first import did not finish.
        """
        return self.info.size or self.open_pixels().size

    def open_pixels(self, size: int | None = None, *, decoded_so_far: bool = False) -> PixelStore:
        """Open the decoded images of one size, by default the smallest.

        Args:
            size: side of the images in pixels.
            decoded_so_far: True to open those that an unfinished first import has decoded so far, too.

        Raises:
            NotFoundError: no images are stored at that size.
        """
        sizes = list_stored_sizes(self.folder, complete=True)
        is_complete = bool(sizes)
        if decoded_so_far and not is_complete:
            sizes = list_stored_sizes(self.folder)
        if not sizes or (size is not None and size not in sizes):
            there = ", ".join(map(str, sizes)) or "none, because the import did not finish"
            raise NotFoundError(
                f"{self.name} has no pixels of size {size or 'any'}; stored sizes: {there}.",
                advice="Import the dataset with that size.",
                parameters=("size",),
            )
        chosen = sizes[0] if size is None else size
        with Manifest(self.folder) as manifest:
            return PixelStore(self.folder, chosen, manifest.list_stored_ids(chosen), is_complete=is_complete)

    def read_pixels(self, image_id: int) -> NDArray[np.uint8]:
        """Read one image from the largest pixel store, (size, size, 3).

        Raises:
            NotFoundError: its pixels are not stored.
        """
        sizes = list_stored_sizes(self.folder, complete=True)
        store = self.open_pixels(sizes[-1] if sizes else None, decoded_so_far=True)
        if image_id not in store.ids:
            raise NotFoundError(f"{self.name} has no pixels of image {image_id} yet.")
        return store.read([image_id]).squeeze(0)

    def read_record(self, image_id: int) -> ImageRecord:
        """Read the row of one readable image from the manifest.

        Raises:
            NotFoundError: the image does not exist, or is unreadable.
        """
        with Manifest(self.folder) as manifest:
            for record in manifest.read_records("id = ? AND status = 'ok'", (image_id,)):
                return record
        raise NotFoundError(f"{self.name} has no image {image_id}.")

    def read_metadata(self, ids: NDArray[np.int64]) -> ImageMetadata:
        """Read class, split and content version of images, in the order of `ids`."""
        with Manifest(self.folder) as manifest:
            rows = {number: (name, split, version) for number, name, split, version in manifest.read_metadata()}
        names = [rows[number][0] for number in ids.tolist()]
        known = sorted({name for name in names if name is not None})
        numbers = {name: number for number, name in enumerate(known)}
        return ImageMetadata(
            class_names=tuple(known),
            class_numbers=np.array([-1 if n is None else numbers[n] for n in names], dtype=np.int64) if known else None,
            splits=np.array([rows[number][1] for number in ids.tolist()], dtype=np.object_),
            versions=np.array([rows[number][2] for number in ids.tolist()], dtype=np.int64),
        )

    def read_content_versions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the version in which the content of each image was imported; 0 for ids without a readable image."""
        with Manifest(self.folder) as manifest:
            if len(ids) > _MAX_SINGLE_LOOKUPS:
                return _look_up(ids, *read_content_versions(manifest))
            versions = manifest.read_content_versions(ids.tolist())
        return np.array([versions.get(number, 0) for number in ids.tolist()], dtype=np.int64)

    def sample_records(self, count: int) -> list[ImageRecord]:
        """Return up to `count` evenly spaced readable images."""
        with Manifest(self.folder) as manifest:
            return manifest.sample_records(count)

    def write_unreadable_csv(self, stream: TextIO) -> int:
        """Write the unreadable files with their reasons as CSV, and return how many there are."""
        with Manifest(self.folder) as manifest:
            records = manifest.read_records("status = 'unreadable'", order="path")
            return _write_csv(stream, ("path", "bytes", "reason"), ((r.path, r.bytes, r.reason) for r in records))

    def find_duplicates(self) -> NDArray[np.int64]:
        """Return the ids of all readable images that have exact copies, ascending."""
        with Manifest(self.folder) as manifest:
            rows = manifest.connection.execute(f"SELECT id FROM images WHERE {_HAS_COPIES} ORDER BY id")
            return np.array([number for (number,) in rows], dtype=np.int64)

    def write_duplicates_csv(self, stream: TextIO) -> int:
        """Write all images that have exact copies as CSV, copies in consecutive rows, and return how many there are."""
        with Manifest(self.folder) as manifest:
            records = manifest.read_records(_HAS_COPIES, order="hash, path")
            return _write_csv(stream, ("path", "bytes", "hash"), ((r.path, r.bytes, r.hash) for r in records))


def _look_up(wanted: NDArray[np.int64], ids: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values of some ids; 0 for those that do not exist."""
    by_id = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    by_id[ids] = values
    there = (wanted >= 0) & (wanted < len(by_id))
    return np.where(there, by_id[np.where(there, wanted, 0)], 0)


def _write_csv(stream: TextIO, header: tuple[str, ...], rows: Iterator[tuple[str, int, str | None]]) -> int:
    writer = csv.writer(stream)
    writer.writerow(header)
    count = 0
    for path, size, text in rows:
        writer.writerow((escape_formula(to_printable(path)), size, text))
        count += 1
    return count
