"""Import of a source into a dataset: list, compare with the manifest, decode. An import can be interrupted at any time.

The order of writes ensures that a crash or power failure never leads to wrong pixels: rows become `pending`, pixels are
written and flushed, rows become `ok`, and finally the marker files and the version are written.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crlc.data.classes import assign_classes, check_classes_option, read_subset, require_classes_fit
from crlc.data.columns import BUILT_IN_COLUMNS, make_distinct_names
from crlc.data.decode import decode_square, read_image_size
from crlc.data.decode_worker import DecodeItem, DecodeResult, ImageDecoder, ImageHasher, MetadataReader
from crlc.data.image_diff import ImageChanges, ListingDiff
from crlc.data.manifest import Manifest
from crlc.data.metadata_tables import (
    count_images_without_photo_values,
    list_images_without_photo_values,
    replace_list_columns,
)
from crlc.data.options import ALL, PHOTOGRAPH_SIZE, ImportOptions
from crlc.data.pixel_store import list_stored_sizes, mark_complete
from crlc.data.pixel_writer import PixelWriter, count_image_bytes
from crlc.data.sources import Source, SourceEntry, UnreadableError
from crlc.data.sources.table import CsvSource
from crlc.data.worker_pool import WorkerDiedError, WorkerPool, WorkerStartError
from crlc.errors import CrlcError, DiskFullError, SourceError
from crlc.formatting import format_bytes, format_list
from crlc.paths import decode_path
from crlc.progress import ProgressCallback, ProgressStage, no_progress

DECODING_STAGE = "Decoding"
"""Name of the stage in progress reports, which count images that are on disk."""

STANDARD_SIZES = (16, 32, 64, PHOTOGRAPH_SIZE)
_SIZE_SAMPLE_IMAGES = 32
_CHUNK_IMAGES = 32
_LISTED_FOLDERS = 5
_MIN_IMAGES_FOR_WORKERS = 64
"""Fewer images are decoded in the calling process: starting workers takes longer."""

_COMMIT_SECONDS = 0.25
"""Interval between flushes of pixels: short, so that the disk writes while the CPU decodes."""


@dataclass(frozen=True)
class ImportReport:
    """Result of an import."""

    changes: ImageChanges
    readable: int
    unreadable: dict[str, int]
    """Number of unreadable files by reason."""

    duplicates: int
    sizes: tuple[int, ...]
    unmatched_classes: int | None
    """Number of lines of the CSV file of classes that name no image; `None` without such a file."""

    ignored_columns: int
    """Number of columns of a CSV list that were not imported, because there are too many."""

    seconds: float


@dataclass(frozen=True)
class Importer:
    """One import into the folder of a dataset. The caller must hold the lock of the dataset."""

    folder: Path
    source: Source
    options: ImportOptions
    report: ProgressCallback = no_progress
    decoding_starts: Callable[[tuple[int, ...]], None] = lambda _: None
    """Called with the sizes of the pixel stores before the first image is decoded."""

    check_listing: Callable[[Manifest, Source], None] = lambda *_: None
    """Called with the manifest, whose table `scan` has the listing, before anything is changed; raises to refuse it."""

    def run(self) -> ImportReport:
        """Update manifest and pixel stores from the source.

        Raises:
            SourceError: the source has no image, or none of those imported before; then nothing is changed.
            DiskFullError: there is not enough disk space; finished work is kept.
        """
        started = time.monotonic()
        classes = self.options.classes or "auto"
        check_classes_option(classes, self.source)
        with Manifest(self.folder, create=True) as manifest, WorkerPool(self.options.worker_count) as pool:
            if self.options.worker_count > 1 and manifest.get_last_id() == 0:
                pool.start()  # the workers start while the source is listed
            diff = self._compare(manifest, pool)
            require_classes_fit(manifest, self.source, classes)
            self.check_listing(manifest, self.source)
            sizes = self._choose_sizes(manifest)
            changes = diff.apply()
            if manifest.version == 0:
                assign_classes(manifest, self.source, classes)  # the app shows the images while they are decoded
            with manifest.transaction():
                replace_list_columns(manifest.connection, self._name_list_columns())
            self.decoding_starts(sizes)
            self._decode(manifest, sizes, pool)
            self._require_images(manifest)
            self._add_missing_metadata(manifest, sizes[0], pool)
            unmatched = assign_classes(manifest, self.source, classes)
            for size in sizes:
                mark_complete(self.folder, size, manifest.get_last_id())
            with manifest.transaction():
                manifest.set_complete(complete=True)
            return ImportReport(
                changes=changes,
                readable=manifest.count("ok"),
                unreadable=manifest.count_unreadable_reasons(),
                duplicates=manifest.count_exact_duplicates(),
                sizes=sizes,
                unmatched_classes=unmatched,
                ignored_columns=self.source.count_ignored_columns() if isinstance(self.source, CsvSource) else 0,
                seconds=time.monotonic() - started,
            )

    # ---- listing and comparing

    def _compare(self, manifest: Manifest, pool: WorkerPool) -> ListingDiff:
        diff = ListingDiff(manifest)
        found = diff.add_entries(self._list_selected_entries(), self.options.limit or None)
        if not found:
            raise SourceError(f"{self.source.location} has no files that may be images.", advice="Check the path.")
        diff.match_unchanged()
        if diff.needs_hashes():
            stage = ProgressStage("Comparing", diff.count_unmatched(), self.report)
            for chunk, hashes in self._process(
                ImageHasher(self.source), diff.list_unmatched(_CHUNK_IMAGES), stage, pool
            ):
                diff.set_hashes([(path, None) for path in chunk] if hashes is None else hashes)
                stage.advance(len(chunk))
            stage.finish()
        diff.match_contents()
        if not diff.keeps_known_images() and not self._is_any_readable(diff.list_replaced()):
            raise SourceError(
                f"None of the {manifest.count('ok'):,} images imported before is in {self.source.location} any more. "
                "Nothing was changed.",
                advice="If the images moved, relink the dataset; if these are other images, import them as a dataset "
                "of another name.",
                parameters=("name",),
            )
        return diff

    def _is_any_readable(self, paths: Iterator[str]) -> bool:
        """Return whether at least one file can be decoded; checked before the files replace all known images."""
        for path in paths:
            try:
                decode_square(self.source.read(path), STANDARD_SIZES[0])
            except UnreadableError:
                continue
            return True
        return False

    def _list_selected_entries(self) -> Iterator[SourceEntry]:
        """Yield the listing, restricted to the requested splits and class folders."""
        splits = self.options.splits
        subset = read_subset(self.options.subset) if self.options.subset not in (None, ALL) else None
        missing = set(subset or ())
        seen_splits: set[str] = set()
        stage = ProgressStage("Listing", None, self.report)
        for entry in self.source.list_entries():
            if splits is not None:
                seen_splits.add(entry.split or "")
                if entry.split not in splits:
                    continue
            if subset is not None:
                folder = entry.path.rpartition("/")[0].rpartition("/")[2]
                if folder not in subset:
                    continue
                missing.discard(folder)
            stage.advance()
            yield entry
        stage.finish()
        self._require_splits(splits, seen_splits)
        if missing:
            raise SourceError(
                f"{self.source.location} lacks {len(missing)} of the {len(subset or ())} class folders of "
                f"{self.options.subset}: {format_list(sorted(missing), _LISTED_FOLDERS)}."
            )

    def _require_splits(self, requested: frozenset[str] | None, seen: set[str]) -> None:
        if requested is not None and (absent := requested - seen):
            there = ", ".join(sorted(seen - {""})) or "none"
            raise SourceError(
                f"{self.source.location} has no split {', '.join(sorted(absent))}. Splits found there: {there}."
            )

    # ---- decoding

    def _choose_sizes(self, manifest: Manifest) -> tuple[int, ...]:
        """Return the sizes of all pixel stores of the dataset, complete or not, and the requested size."""
        sizes = set(list_stored_sizes(self.folder))
        if self.options.size is not None:
            sizes.add(self.options.size)
        if not sizes:
            sizes.add(self._choose_standard_size(manifest))
        return tuple(sorted(sizes))

    def _choose_standard_size(self, manifest: Manifest) -> int:
        """Return the smallest standard size that is at least the median short side of a sample."""
        query = "SELECT path FROM scan WHERE problem IS NULL ORDER BY spread(path) LIMIT ?"
        short_sides = []
        for (path,) in manifest.connection.execute(query, (_SIZE_SAMPLE_IMAGES,)).fetchall():
            try:
                short_sides.append(min(read_image_size(self.source.read(decode_path(path)))))
            except UnreadableError:
                continue
        median = sorted(short_sides)[len(short_sides) // 2] if short_sides else STANDARD_SIZES[-1]
        return next((size for size in STANDARD_SIZES if size >= median), STANDARD_SIZES[-1])

    def _decode(self, manifest: Manifest, sizes: tuple[int, ...], pool: WorkerPool) -> None:
        writers = [PixelWriter(self.folder, size) for size in sizes]
        try:
            self._reserve_space(manifest, writers, sizes)
            stage = ProgressStage(DECODING_STAGE, manifest.count_undecoded(sizes), self.report)
            decoder = ImageDecoder(self.source, self.folder, sizes)
            uncommitted: list[DecodeResult] = []
            committed = time.monotonic()
            for chunk, results in self._process(decoder, manifest.list_undecoded(sizes, _CHUNK_IMAGES), stage, pool):
                uncommitted += _mark_crashed(chunk) if results is None else results
                if time.monotonic() - committed > _COMMIT_SECONDS:
                    self._commit(manifest, writers, uncommitted, stage)
                    committed = time.monotonic()
            self._commit(manifest, writers, uncommitted, stage)
            stage.finish()
        finally:
            for writer in writers:
                writer.close()

    def _name_list_columns(self) -> list[str]:
        """Return the names of the further columns of a CSV list, different from those that every dataset has."""
        names = self.source.column_names if isinstance(self.source, CsvSource) else ()
        return make_distinct_names(names, BUILT_IN_COLUMNS)

    def _add_missing_metadata(self, manifest: Manifest, size: int, pool: WorkerPool) -> None:
        """Read the metadata of images that an earlier version decoded, from the originals and the stored pixels."""
        sql = manifest.connection
        count = count_images_without_photo_values(sql, size)
        if not count:
            return
        stage = ProgressStage("Reading metadata", count, self.report)
        reader = MetadataReader(self.source, self.folder, size)
        for chunk, results in self._process(
            reader, list_images_without_photo_values(sql, size, _CHUNK_IMAGES), stage, pool
        ):
            if results is not None:  # an image that crashes the decoder stays without metadata
                manifest.record_metadata(results)
            stage.advance(len(chunk))
        stage.finish()

    def _reserve_space(self, manifest: Manifest, writers: list[PixelWriter], sizes: tuple[int, ...]) -> None:
        """Check the disk space, repair truncated stores, and extend the files."""
        needed = 0
        for writer, size in zip(writers, sizes, strict=True):
            manifest.forget_pixels(size, from_id=writer.count_rows() + 1)
            # Rows that an interrupted import wrote but did not record already use disk space.
            total = (manifest.count_stored(size) + manifest.count_undecoded([size])) * count_image_bytes(size)
            needed += max(0, total - writer.count_occupied_bytes())
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise DiskFullError(
                f"Decoding needs {format_bytes(needed)} in {self.folder}, but {format_bytes(free)} are free.",
                advice="Free some space, choose a smaller size or limit, or another workspace; then import again.",
                parameters=("size", "limit", "workspace"),
            )
        for writer in writers:
            writer.reserve(manifest.get_last_id())

    @staticmethod
    def _commit(
        manifest: Manifest, writers: list[PixelWriter], uncommitted: list[DecodeResult], stage: ProgressStage
    ) -> None:
        """Write decoded images to disk, and report them: from then on they can be read."""
        for writer in writers:
            writer.flush()
        manifest.record_decoded(uncommitted)
        stage.advance(len(uncommitted))
        uncommitted.clear()

    def _process(
        self, processor: Any, chunks: Iterator[list[Any]], stage: ProgressStage, pool: WorkerPool
    ) -> Iterator[tuple[list[Any], Any]]:
        """Process chunks in this process or in workers; the result is `None` for an item that crashes its worker."""
        if self.options.worker_count == 1 or stage.total is None or stage.total < _MIN_IMAGES_FOR_WORKERS:
            try:
                for chunk in chunks:
                    yield chunk, processor.process_chunk(chunk)
            finally:
                processor.close()
            return
        suspects: list[Any] = []
        for chunk, result in pool.run(processor, chunks):
            if isinstance(result, WorkerDiedError):
                suspects += chunk
            else:
                yield chunk, _check_result(result)
        # The cause may be any item of a chunk whose worker died, or none: process each of its items alone.
        for chunk, result in pool.run(processor, iter([[item] for item in suspects])):
            yield chunk, None if isinstance(result, WorkerDiedError) else _check_result(result)

    def _require_images(self, manifest: Manifest) -> None:
        if manifest.count("ok"):
            return
        is_list = isinstance(self.source, CsvSource)
        advice = (
            "Relative paths start from the folder of the list. Images that exist only as vectors need these vectors."
        )
        reasons = [f"{count:,} x {reason}" for reason, count in list(manifest.count_unreadable_reasons().items())[:3]]
        raise SourceError(
            f"{self.source.location} has no readable image among {manifest.count('unreadable'):,} files: "
            f"{'; '.join(reasons)}.",
            advice=f"Check the paths. {advice}" if is_list else "Check the path.",
        )


def _check_result(result: Any) -> Any:
    """Return the result of a worker, or raise it if it is an error."""
    if isinstance(result, WorkerStartError):
        raise CrlcError(
            f"A worker process could not start ({result}).",
            advice="Try again with one worker process.",
            parameters=("workers",),
        )
    if isinstance(result, Exception):
        raise result
    return result


def _mark_crashed(chunk: list[DecodeItem]) -> list[DecodeResult]:
    return [
        DecodeResult(image_id, sizes, None, reason="the image decoder crashed on it") for image_id, _, sizes in chunk
    ]
