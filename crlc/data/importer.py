"""The import: list a source, compare with what is known, decode what is new. It can be cut off anywhere.

Order of writing, so that a crash or a power cut never shows wrong pixels: rows become `pending`, pixels
are written and flushed, rows become `ok`, and at the very end the marker and the version say complete.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crlc.config import ALL, ImportOptions
from crlc.data.classes import assign_classes, check_classes_option, read_subset, require_classes_fit
from crlc.data.decode import decode, image_size
from crlc.data.decode_worker import Decoded, DecodeJob, HashJob, ToDecode
from crlc.data.manifest import Manifest
from crlc.data.pixel_store import mark_complete
from crlc.data.pixels import PixelWriter, bytes_per_image, stored_sizes
from crlc.data.reconcile import Fates, Reconciliation
from crlc.data.sources import Entry, Source, UnreadableError
from crlc.data.worker_pool import WorkerDiedError, WorkerPool, WorkerStartError
from crlc.errors import CrlcError, DiskFullError, SourceError
from crlc.names import path_from_bytes
from crlc.progress import ProgressCallback, Stage, no_progress

STANDARD_SIZES = (16, 32, 64, 96)
_SAMPLED_FOR_SIZE = 32
_CHUNK = 32
_WORTH_A_PROCESS = 64
"""Fewer images than that are decoded by the calling process: starting another takes longer."""

_COMMIT_SECONDS = 0.25
"""Often, so that the disk writes while the processors decode, and little is left to write at the end."""


@dataclass(frozen=True)
class ImportReport:
    """What an import found and did."""

    fates: Fates
    readable: int
    unreadable: dict[str, int]
    """How many files could not be read, by reason."""

    duplicates: int
    sizes: tuple[int, ...]
    unmatched_classes: int | None
    """Lines of the CSV of classes that name no image; `None` when there was no such file."""

    seconds: float


@dataclass(frozen=True)
class Importer:
    """One import into the folder of one data set. The caller holds the data set's lock."""

    folder: Path
    source: Source
    options: ImportOptions
    report: ProgressCallback = no_progress

    def run(self) -> ImportReport:
        """Bring manifest and pixel stores up to date with the source.

        Raises:
            SourceError: no image there, or none of those known; what was known is not changed then.
            DiskFullError: not enough space; what was finished is kept.
        """
        started = time.monotonic()
        classes = self.options.classes or "auto"
        check_classes_option(classes, self.source)
        with Manifest(self.folder, create=True) as manifest, WorkerPool(self.options.processes) as pool:
            if self.options.processes > 1 and manifest.last_id() == 0:
                pool.warm_up()  # while the source is listed
            reconciliation = self._compare(manifest, pool)
            require_classes_fit(manifest, self.source, classes)
            sizes = self._choose_sizes(manifest)
            fates = reconciliation.apply()
            self._decode(manifest, sizes, pool)
            self._require_images(manifest)
            unmatched = assign_classes(manifest, self.source, classes)
            for size in sizes:
                mark_complete(self.folder, size, manifest.last_id())
            with manifest.transaction():
                manifest.set_complete(complete=True)
            return ImportReport(
                fates=fates,
                readable=manifest.count("ok"),
                unreadable=manifest.reasons(),
                duplicates=manifest.exact_duplicates(),
                sizes=sizes,
                unmatched_classes=unmatched,
                seconds=time.monotonic() - started,
            )

    # ---- listing and comparing

    def _compare(self, manifest: Manifest, pool: WorkerPool) -> Reconciliation:
        reconciliation = Reconciliation(manifest)
        found = reconciliation.add(self._wanted_entries(), self.options.limit or None)
        if not found:
            raise SourceError(f"{self.source.location} holds no files that could be images. Check the path.")
        reconciliation.match_unchanged()
        if reconciliation.needs_hashes():
            stage = Stage("Looking for changes", reconciliation.count_unmatched(), self.report)
            for chunk, hashes in self._work(HashJob(self.source), reconciliation.unmatched(_CHUNK), stage, pool):
                reconciliation.set_hashes([(path, None) for path in chunk] if hashes is None else hashes)
                stage.advance(len(chunk))
            stage.finish()
        reconciliation.match_contents()
        if not reconciliation.keeps_known_images() and not self._any_readable(reconciliation.replaced()):
            raise SourceError(
                f"None of the {manifest.count('ok')} images imported before is in {self.source.location} any more. "
                "Nothing was changed. If they moved, use `relink`; if this is other data, give it a --name of its own."
            )
        return reconciliation

    def _any_readable(self, paths: Iterator[str]) -> bool:
        """Whether one of the files can be decoded: looked at before anything known is given up for them."""
        for path in paths:
            try:
                decode(self.source.read(path), STANDARD_SIZES[0])
            except UnreadableError:
                continue
            return True
        return False

    def _wanted_entries(self) -> Iterator[Entry]:
        """The listing, without the splits and class folders that are not asked for."""
        splits = self.options.splits
        subset = read_subset(self.options.subset) if self.options.subset not in (None, ALL) else None
        missing = set(subset or ())
        seen_splits: set[str] = set()
        stage = Stage("Listing", None, self.report)
        for entry in self.source.entries():
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
                f"{self.options.subset}: {', '.join(sorted(missing)[:5])}{' ...' if len(missing) > 5 else ''}."  # noqa: PLR2004
            )

    def _require_splits(self, wanted: frozenset[str] | None, seen: set[str]) -> None:
        if wanted is not None and (absent := wanted - seen):
            there = ", ".join(sorted(seen - {""})) or "none"
            raise SourceError(
                f"{self.source.location} has no split {', '.join(sorted(absent))}. Splits found there: {there}."
            )

    # ---- decoding

    def _choose_sizes(self, manifest: Manifest) -> tuple[int, ...]:
        """The sizes that the data set has, finished or not, and the one asked for."""
        sizes = set(stored_sizes(self.folder))
        if self.options.size is not None:
            sizes.add(self.options.size)
        if not sizes:
            sizes.add(self._fitting_size(manifest))
        return tuple(sorted(sizes))

    def _fitting_size(self, manifest: Manifest) -> int:
        """The smallest standard size that the usual image fills."""
        query = "SELECT path FROM scan WHERE problem IS NULL ORDER BY spread(path) LIMIT ?"
        shorts = []
        for (path,) in manifest.connection.execute(query, (_SAMPLED_FOR_SIZE,)).fetchall():
            try:
                shorts.append(min(image_size(self.source.read(path_from_bytes(path)))))
            except UnreadableError:
                continue
        usual = sorted(shorts)[len(shorts) // 2] if shorts else STANDARD_SIZES[-1]
        return next((size for size in STANDARD_SIZES if size >= usual), STANDARD_SIZES[-1])

    def _decode(self, manifest: Manifest, sizes: tuple[int, ...], pool: WorkerPool) -> None:
        writers = [PixelWriter(self.folder, size) for size in sizes]
        try:
            self._make_room(manifest, writers, sizes)
            stage = Stage("Decoding", manifest.count_to_decode(sizes), self.report)
            job = DecodeJob(self.source, self.folder, sizes)
            waiting: list[Decoded] = []
            committed = time.monotonic()
            for chunk, results in self._work(job, manifest.to_decode(sizes, _CHUNK), stage, pool):
                waiting += _crashed(chunk) if results is None else results
                stage.advance(len(chunk))
                if time.monotonic() - committed > _COMMIT_SECONDS:
                    self._commit(manifest, writers, waiting)
                    committed = time.monotonic()
            self._commit(manifest, writers, waiting)
            stage.finish()
        finally:
            for writer in writers:
                writer.close()

    def _make_room(self, manifest: Manifest, writers: list[PixelWriter], sizes: tuple[int, ...]) -> None:
        """Check the space, mend stores that were cut short, and make the files long enough."""
        needed = 0
        for writer, size in zip(writers, sizes, strict=True):
            manifest.forget_pixels(size, from_id=writer.rows() + 1)
            # Rows that an interrupted import wrote but did not record take their space already.
            total = (manifest.count_stored(size) + manifest.count_to_decode([size])) * bytes_per_image(size)
            needed += max(0, total - writer.occupied())
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise DiskFullError(
                f"Decoding needs {needed / 1e6:,.0f} MB in {self.folder}, but {free / 1e6:,.0f} MB are free. "
                "Free some space, choose a smaller --size or --limit, or another --workspace; then run it again."
            )
        for writer in writers:
            writer.reserve(manifest.last_id())

    @staticmethod
    def _commit(manifest: Manifest, writers: list[PixelWriter], waiting: list[Decoded]) -> None:
        for writer in writers:
            writer.flush()
        manifest.record_decoded(waiting)
        waiting.clear()

    def _work(
        self, job: Any, chunks: Iterator[list[Any]], stage: Stage, pool: WorkerPool
    ) -> Iterator[tuple[list[Any], Any]]:
        """Do chunks, here or in worker processes; the result is `None` for an item that kills its worker."""
        if self.options.processes == 1 or stage.total is None or stage.total < _WORTH_A_PROCESS:
            try:
                for chunk in chunks:
                    yield chunk, job.do(chunk)
            finally:
                job.close()
            return
        suspects: list[Any] = []
        for chunk, answer in pool.run(job, chunks):
            if isinstance(answer, WorkerDiedError):
                suspects += chunk
            else:
                yield chunk, _sound(answer)
        # One item of a chunk whose worker died may be the cause, or none: each gets a try alone.
        for chunk, answer in pool.run(job, iter([[item] for item in suspects])):
            yield chunk, None if isinstance(answer, WorkerDiedError) else _sound(answer)

    def _require_images(self, manifest: Manifest) -> None:
        if manifest.count("ok"):
            return
        reasons = [f"{count} x {reason}" for reason, count in list(manifest.reasons().items())[:3]]
        raise SourceError(
            f"{self.source.location} holds no readable image among {manifest.count('unreadable')} files: "
            f"{'; '.join(reasons)}. Check the path."
        )


def _sound(answer: Any) -> Any:
    if isinstance(answer, WorkerStartError):
        raise CrlcError(f"A worker process could not start ({answer}). Try again with --workers 1.")
    if isinstance(answer, Exception):
        raise answer
    return answer


def _crashed(chunk: list[ToDecode]) -> list[Decoded]:
    return [Decoded(image_id, sizes, None, reason="the image decoder crashed on it") for image_id, _, sizes in chunk]
