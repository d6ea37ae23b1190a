"""Datasets of a workspace by name: import, list, relink and remove. One process writes at a time; any may read."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import platformdirs

from crlc.data.dataset import INFO_FILE, DatasetInfo, ImageDataset
from crlc.data.decode_worker import hash_content
from crlc.data.importer import Importer, ImportReport
from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.data.sources import Source, UnreadableError
from crlc.data.sources.opening import open_source
from crlc.data.sources.table import CsvSource
from crlc.errors import AccessError, BusyError, CrlcError, NotFoundError, SourceError, UsageError, explain_disk_full
from crlc.files import writer_lock
from crlc.paths import encode_path, to_printable
from crlc.progress import ProgressCallback, no_progress

_MAX_NAME_LENGTH = 64
_HASHED_IMAGES = 64  # compared with the originals when a dataset is relinked
_FOLDERS = ("datasets", "runs", "locks")
_TRASH_PREFIX = ".removed-"
_LOCK_WAIT_SECONDS = 0.5  # `is_being_written` holds the lock for a moment: a writer that starts then must not fail


def get_default_workspace() -> Path:
    """Return the folder in the environment variable CRLC_WORKSPACE, or else a folder in the user's data directory."""
    given = os.environ.get("CRLC_WORKSPACE")
    return Path(given) if given else Path(platformdirs.user_data_dir("crlc-studio", appauthor=False))


@dataclass(frozen=True)
class RelinkReport:
    """Number of original images found at a new location."""

    found: int
    expected: int
    location: str


class Workspace:
    """Folder that holds datasets and runs; it is created by the first write."""

    def __init__(self, root: Path | None = None) -> None:
        """Store the folder, by default that of `get_default_workspace`.

        Raises:
            UsageError: the path is a file, or below a file, or a folder of the workspace is a file.
            AccessError: a folder above the workspace cannot be entered.
        """
        self.root = (root or get_default_workspace()).expanduser().absolute()
        try:
            existing = next(path for path in (self.root, *self.root.parents) if path.exists())
        except PermissionError as error:
            raise AccessError.for_path(error.filename, "read") from None
        if not existing.is_dir():
            place = "is" if existing == self.root else f"is below {existing}, which is"
            raise UsageError(
                f"The workspace {self.root} {place} a file; it must be a folder.",
                advice="Choose another workspace.",
                parameters=("workspace",),
            )
        for path in (self.root / name for name in _FOLDERS):
            with suppress(PermissionError):  # reported by the operation that needs the folder
                if os.path.lexists(path) and not path.is_dir():
                    raise UsageError(
                        f"{path} is not a folder, but it must be one.",
                        advice="Move it away, or choose another workspace.",
                        parameters=("workspace",),
                    )

    # ---- reading

    def list_dataset_names(self) -> list[str]:
        """Return the names of all datasets, including incomplete imports and damaged datasets."""
        with suppress(FileNotFoundError):
            folders = (folder for folder in self._datasets.iterdir() if not folder.name.startswith("."))
            return sorted(folder.name for folder in folders if _is_dataset(folder))
        return []

    def open_dataset(self, name: str) -> ImageDataset:
        """Open a dataset.

        Raises:
            NotFoundError: no dataset has this name; the advice suggests a similar one.
        """
        self._require(name)
        return ImageDataset(self._datasets / name)

    def _require(self, name: str) -> None:
        names = self.list_dataset_names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names) or 'none yet'}."
            raise NotFoundError(f"No dataset is named {to_printable(name)!r} in {self.root}.", advice=hint)

    def is_being_written(self, name: str) -> bool:
        """Return whether a process is currently importing, relinking or removing the dataset."""
        try:
            with self._lock(name, timeout_seconds=0):
                return False
        except BusyError:
            return True

    # ---- writing

    def import_dataset(
        self,
        given: str,
        *,
        name: str | None = None,
        options: ImportOptions | None = None,
        downloads: Path | None = None,
        report: ProgressCallback = no_progress,
        decoding_starts: Callable[[ImageDataset, tuple[int, ...]], None] = lambda *_: None,
        check_listing: Callable[[Manifest, Source], None] = lambda *_: None,
    ) -> tuple[ImageDataset, ImportReport]:
        """Import a dataset, continue an interrupted import, or update a dataset from its source.

        Args:
            given: path of a source, or name of a built-in dataset.
            name: name of the dataset; by default, derived from the source.
            options: import options; those that are not set keep their value from an earlier import.
            downloads: folder for built-in datasets; by default, in the workspace.
            report: receives the progress.
            decoding_starts: called with the dataset and the sizes of its pixel stores before the first image is
                decoded. From then on, the images decoded so far can be read.
            check_listing: called as `Importer.check_listing`; if it raises an error, nothing is changed.

        Returns:
            The dataset and a report about readable, unreadable and duplicate images.

        Raises:
            CrlcError: the import failed; nothing was changed unless the message says so.
        """
        options = (options or ImportOptions()).with_absolute_paths()
        with explain_disk_full(self.root):
            downloads = (downloads or self.root / "downloads").absolute()
            source = open_source(given, downloads)
            name = check_dataset_name(name) if name is not None else self._choose_name(source)
            with self._lock(name):
                info, is_new = self._prepare(name, source, downloads, options)
                folder = self._datasets / name
                try:
                    announce = partial(decoding_starts, ImageDataset(folder))
                    if info.options.placeholders and isinstance(source, CsvSource):
                        source = CsvSource(source.location, has_placeholders=True)
                    outcome = Importer(folder, source, info.options, report, announce, check_listing).run()
                except BaseException:  # also if the user cancels the import
                    if is_new and not _has_images(folder):
                        shutil.rmtree(folder, ignore_errors=True)
                    raise
                # The options and the chosen size are stored only after a successful import.
                replace(info, size=info.size or outcome.sizes[0]).save(folder)
                return ImageDataset(folder), outcome

    def relink_dataset(self, name: str, new_location: str) -> RelinkReport:
        """Change the location of the original images of a dataset, after checking that they are there.

        Args:
            name: name of the dataset.
            new_location: path of the moved source.

        Raises:
            SourceError: fewer than half of the images are there, or their content differs.
        """
        self._require(name)
        with self._lock(name):
            dataset = self.open_dataset(name)
            source = open_source(new_location, Path(dataset.info.downloads))
            if source.kind != dataset.info.source_kind:
                raise SourceError(
                    f"{source.location} is not allowed: its kind is {source.kind}, but {name} was imported "
                    f"from a source of the kind {dataset.info.source_kind}. Nothing was changed."
                )
            with Manifest(dataset.folder) as manifest:
                expected = manifest.count("ok")
                found = _count_found(manifest, source)
                if 2 * found < expected:
                    raise SourceError(
                        f"Only {found} of the {expected} images of {name} are in {source.location}. "
                        "Nothing was changed."
                    )
                _compare_contents(manifest, source)
            replace(dataset.info, location=source.location).save(dataset.folder)
            return RelinkReport(found, expected, source.location)

    def remove_dataset(self, name: str) -> None:
        """Remove a dataset and its decoded pixels, even a damaged one. The original images are not touched."""
        self._require(name)
        with self._lock(name):
            # Renamed first, so that a list of datasets shows it either complete or not at all.
            folder = self._datasets / name
            folder.rename(folder.with_name(f"{_TRASH_PREFIX}{uuid.uuid4().hex}"))
        for trash in self._datasets.glob(f"{_TRASH_PREFIX}*"):  # including those that an interrupted removal left
            shutil.rmtree(trash, ignore_errors=True)

    # ---- implementation

    @property
    def _datasets(self) -> Path:
        return self.root / "datasets"

    def _lock(self, name: str, timeout_seconds: float = _LOCK_WAIT_SECONDS) -> AbstractContextManager[None]:
        return writer_lock(self.root / "locks" / f"dataset-{name}.lock", f"The dataset {name!r}", timeout_seconds)

    def _choose_name(self, source: Source) -> str:
        """Return the name of the dataset that has this source, or an unused name derived from the source."""
        usual = _derive_name(source)
        names = sorted(self.list_dataset_names(), key=lambda name: name != usual)
        for name in names:
            with suppress(CrlcError):
                info = DatasetInfo.load(self._datasets / name)
                if (info.source_kind, info.location) == (source.kind, source.location):
                    return name
        return self._find_unused_name(usual) if usual in names else usual

    def _prepare(self, name: str, source: Source, downloads: Path, options: ImportOptions) -> tuple[DatasetInfo, bool]:
        """Return the new or updated description of a dataset, and whether it is new. Updates are not saved yet."""
        folder = self._datasets / name
        if (folder / INFO_FILE).exists():
            info = DatasetInfo.load(folder)
            if (info.source_kind, info.location) != (source.kind, source.location):
                raise UsageError(
                    f"A dataset named {name!r} exists already, imported from {to_printable(info.location)}.",
                    advice=f"Choose another name, for example {self._find_unused_name(name)}.",
                    parameters=("name",),
                )
            return replace(info, options=options.with_defaults(info.options)), False
        folder.mkdir(parents=True, exist_ok=True)
        # The manifest is created first: a folder is listed as a dataset as soon as it has a description.
        Manifest(folder, create=True).close()
        created = datetime.now(UTC).isoformat(timespec="seconds")
        info = DatasetInfo(name, uuid.uuid4().hex, source.kind, source.location, str(downloads), options, created)
        info.save(folder)
        return info, True

    def _find_unused_name(self, name: str) -> str:
        taken = set(self.list_dataset_names())
        return next(f"{name}-{number}" for number in range(2, len(taken) + 3) if f"{name}-{number}" not in taken)


def check_dataset_name(name: str) -> str:
    """Return the name of a dataset if it is a valid folder name on every system.

    Raises:
        UsageError: the name is not allowed.
    """
    if not re.fullmatch(r"\w[\w.-]*", name) or len(name) > _MAX_NAME_LENGTH or name.endswith("."):
        raise UsageError(
            f"name={to_printable(name)!r} is not allowed: it may have up to {_MAX_NAME_LENGTH} letters, digits, dots, "
            "dashes or underscores, and must start with a letter or digit."
        )
    return name


def _derive_name(source: Source) -> str:
    stem = Path(source.location).name if source.kind in ("folder", "builtin") else Path(source.location).stem
    plain = unicodedata.normalize("NFC", stem.encode("utf-8", "replace").decode()).lower()
    return re.sub(r"[^\w.-]+", "-", plain).strip("-._")[:_MAX_NAME_LENGTH].rstrip(".") or "images"


def _is_dataset(folder: Path) -> bool:
    """Return whether a folder has a dataset, or may have one that the user has no permission to read."""
    try:
        return (folder / INFO_FILE).exists()
    except PermissionError:
        return True


def _has_images(folder: Path) -> bool:
    try:
        with Manifest(folder) as manifest:
            return manifest.count("ok") > 0
    except CrlcError:
        return False


def _count_found(manifest: Manifest, source: Source) -> int:
    query = "SELECT 1 FROM images WHERE path = ? AND bytes = ? AND status = 'ok'"
    return sum(
        manifest.connection.execute(query, (encode_path(entry.path), entry.bytes)).fetchone() is not None
        for entry in source.list_entries()
        if entry.problem is None
    )


def _compare_contents(manifest: Manifest, source: Source) -> None:
    """Compare the content of a sample of files: a different image may have the same name and size."""
    for record in manifest.sample_records(_HASHED_IMAGES):
        try:
            digest = hash_content(source.read(record.path)).hex()
        except UnreadableError:
            continue
        if digest != record.hash:
            raise SourceError(
                f"{to_printable(record.path)} in {source.location} is not the image that was imported. "
                "Nothing was changed.",
                advice="Import that folder as a new dataset with another name.",
                parameters=("name",),
            )
