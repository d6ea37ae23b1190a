"""An imported data set, for reading: what it is, what is in it, and its pixels."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from crlc.config import ImportOptions
from crlc.data.manifest import DAMAGED_ADVICE, ImageRecord, Manifest
from crlc.data.manifest_columns import content_versions
from crlc.data.pixel_store import PixelStore
from crlc.data.pixels import stored_sizes
from crlc.data.sources import Source
from crlc.data.sources.opening import open_source
from crlc.errors import DamagedError, NotFoundError, SourceError
from crlc.files import read_json, write_json
from crlc.names import printable, spreadsheet_safe

INFO_FILE = "dataset.json"
_KIND, _VERSION = "dataset", 1
_FEW_IDS = 1_000
"""Up to here they are looked up one by one; above, the whole table is read at once."""


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is and where its images come from."""

    name: str
    uid: str
    """Never given twice: a data set of the same name made later is another one."""

    source_kind: str
    location: str
    downloads: str
    options: ImportOptions
    created: str
    size: int | None = None
    """Side of the pixels that the first import chose; none until it finished."""

    def save(self, folder: Path) -> None:
        """Write it into the data set's folder."""
        content: dict[str, Any] = {"kind": _KIND, "version": _VERSION, **vars(self), "options": self.options.to_json()}
        write_json(folder / INFO_FILE, content)

    @classmethod
    def load(cls, folder: Path) -> DatasetInfo:
        """Read it from the data set's folder.

        Raises:
            DamagedError: it cannot be read.
        """
        content = read_json(folder / INFO_FILE, _KIND, _VERSION, DAMAGED_ADVICE)
        try:
            fields = {name: content[name] for name in cls.__dataclass_fields__}
            return cls(**{**fields, "options": ImportOptions(**content["options"])})
        except (KeyError, TypeError) as error:
            raise DamagedError(f"{folder / INFO_FILE} lacks or misspells {error}. {DAMAGED_ADVICE}") from None


@dataclass(frozen=True)
class DatasetSummary:
    """Counts that describe a data set at one moment."""

    readable: int
    unreadable: dict[str, int]
    pending: int
    duplicates: int
    classes: dict[str, int]
    splits: dict[str, int]
    sizes: tuple[int, ...]
    complete: bool
    version: int
    pixel_bytes: int


@dataclass(frozen=True)
class ImageFacts:
    """What came with some images."""

    class_names: tuple[str, ...]
    class_numbers: NDArray[np.int64] | None
    """Index into `class_names`, -1 where unknown; none when no class is known at all."""

    splits: NDArray[np.object_]
    """The split that each image belongs to, or none."""

    versions: NDArray[np.int64]
    """In which version of the manifest each image's content arrived."""


class ImageDataset:
    """Reads one data set. Cheap to make; opens the manifest for each question."""

    def __init__(self, folder: Path) -> None:
        """Read what the data set is.

        Raises:
            DamagedError: its files are not readable.
        """
        self.folder = folder
        self.info = DatasetInfo.load(folder)

    def __eq__(self, other: object) -> bool:
        """Readers are equal while folder and description are."""
        return isinstance(other, ImageDataset) and (self.folder, self.info) == (other.folder, other.info)

    def __hash__(self) -> int:
        """Equal readers have equal hashes."""
        return hash((self.folder, self.info))

    @property
    def name(self) -> str:
        """The name people gave it."""
        return self.info.name

    @property
    def version(self) -> int:
        """How many imports it has seen: what was read of an older version may be out of date."""
        with Manifest(self.folder) as manifest:
            return manifest.version

    def changed_since(self, version: int) -> int:
        """How many images that were there at a version of the manifest have other content now."""
        with Manifest(self.folder) as manifest:
            return manifest.count_changed_since(version)

    @cached_property
    def source(self) -> Source:
        """The originals, if they are still where they were; opened once.

        Raises:
            SourceError: they are not.
        """
        try:
            return open_source(self.info.location, Path(self.info.downloads))
        except SourceError as error:
            raise SourceError(f"{error} If the originals moved: relink {self.name} NEW-PATH.") from None

    def summary(self) -> DatasetSummary:
        """Count everything."""
        with Manifest(self.folder) as manifest:
            sizes = stored_sizes(self.folder, complete=True)
            return DatasetSummary(
                readable=manifest.count("ok"),
                unreadable=manifest.reasons(),
                pending=manifest.count("pending"),
                duplicates=manifest.exact_duplicates(),
                classes=manifest.counts_by("class"),
                splits=manifest.counts_by("split"),
                sizes=sizes,
                complete=manifest.complete,
                version=manifest.version,
                pixel_bytes=sum(file.stat().st_size for file in self.folder.glob("pixels/*.u8")),
            )

    def usual_size(self) -> int:
        """The size that its first import chose, whatever others were added.

        Raises:
            NotFoundError: the first import did not finish.
        """
        return self.info.size or self.pixels().size

    def pixels(self, size: int | None = None) -> PixelStore:
        """The decoded images of one size; by default the smallest there is.

        Raises:
            NotFoundError: there are none of that size.
        """
        sizes = stored_sizes(self.folder, complete=True)
        if not sizes or (size is not None and size not in sizes):
            there = ", ".join(map(str, sizes)) or "none, as the import did not finish"
            raise NotFoundError(
                f"{self.name} has no pixels of size {size or 'any'}; sizes there: {there}. Import it with --size."
            )
        chosen = sizes[0] if size is None else size
        with Manifest(self.folder) as manifest:
            return PixelStore(self.folder, chosen, manifest.stored_ids(chosen))

    def stored_pixels(self, image_id: int) -> NDArray[np.uint8]:
        """One image from the largest pixel store.

        Raises:
            NotFoundError: it is not there.
        """
        sizes = stored_sizes(self.folder, complete=True)
        store = self.pixels(sizes[-1] if sizes else None)
        if image_id not in store.ids:
            raise NotFoundError(f"{self.name} has no pixels of image {image_id} yet.")
        return store.read([image_id]).squeeze(0)

    def record(self, image_id: int) -> ImageRecord:
        """The manifest's row of one readable image.

        Raises:
            NotFoundError: there is no such image, or it is not readable.
        """
        with Manifest(self.folder) as manifest:
            for record in manifest.records("id = ? AND status = 'ok'", (image_id,)):
                return record
        raise NotFoundError(f"{self.name} has no image {image_id}.")

    def facts(self, ids: NDArray[np.int64]) -> ImageFacts:
        """Class, split and version of some images, in their order."""
        with Manifest(self.folder) as manifest:
            rows = {number: (name, split, version) for number, name, split, version in manifest.facts()}
        names = [rows[number][0] for number in ids.tolist()]
        known = sorted({name for name in names if name is not None})
        numbers = {name: number for number, name in enumerate(known)}
        return ImageFacts(
            class_names=tuple(known),
            class_numbers=np.array([-1 if n is None else numbers[n] for n in names], dtype=np.int64) if known else None,
            splits=np.array([rows[number][1] for number in ids.tolist()], dtype=np.object_),
            versions=np.array([rows[number][2] for number in ids.tolist()], dtype=np.int64),
        )

    def content_versions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The version in which the content of each image arrived; 0 where there is no such readable image."""
        with Manifest(self.folder) as manifest:
            if len(ids) > _FEW_IDS:
                return _looked_up(ids, *content_versions(manifest))
            versions = manifest.content_versions(ids.tolist())
        return np.array([versions.get(number, 0) for number in ids.tolist()], dtype=np.int64)

    def sample(self, count: int) -> list[ImageRecord]:
        """A few readable images, spread over the data set."""
        with Manifest(self.folder) as manifest:
            return manifest.sample(count)

    def write_problems(self, stream: TextIO) -> int:
        """Write the unreadable files with their reasons as CSV; returns how many."""
        with Manifest(self.folder) as manifest:
            records = manifest.records("status = 'unreadable'", order="path")
            return _write_csv(stream, ("path", "bytes", "reason"), ((r.path, r.bytes, r.reason) for r in records))

    def write_duplicates(self, stream: TextIO) -> int:
        """Write all images that have exact copies as CSV, copies together; returns how many."""
        with Manifest(self.folder) as manifest:
            repeated = "SELECT hash FROM images WHERE status = 'ok' GROUP BY hash HAVING COUNT(*) > 1"
            records = manifest.records(f"status = 'ok' AND hash IN ({repeated})", order="hash, path")
            return _write_csv(stream, ("path", "bytes", "hash"), ((r.path, r.bytes, r.hash) for r in records))


def _looked_up(wanted: NDArray[np.int64], ids: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of some ids; 0 for those that are not there."""
    by_id = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    by_id[ids] = values
    there = (wanted >= 0) & (wanted < len(by_id))
    return np.where(there, by_id[np.where(there, wanted, 0)], 0)


def _write_csv(stream: TextIO, header: tuple[str, ...], rows: Iterator[tuple[str, int, str | None]]) -> int:
    writer = csv.writer(stream)
    writer.writerow(header)
    count = 0
    for path, size, text in rows:
        writer.writerow((spreadsheet_safe(printable(path)), size, text))
        count += 1
    return count
