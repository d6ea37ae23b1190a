"""Data sets by name: import, list, re-link, remove. One writer at a time, readers at any time."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import unicodedata
import uuid
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from crlc.config import ImportOptions
from crlc.data.dataset import INFO_FILE, DatasetInfo, ImageDataset
from crlc.data.decode_worker import content_hash
from crlc.data.importer import Importer, ImportReport
from crlc.data.manifest import Manifest
from crlc.data.sources import Source, UnreadableError
from crlc.data.sources.opening import open_source
from crlc.errors import BusyError, CrlcError, NotFoundError, SourceError, UsageError, disk_full_explained
from crlc.files import writer_lock
from crlc.names import path_to_bytes, printable
from crlc.progress import ProgressCallback, no_progress

_LONGEST_NAME = 64
_HASHED_ON_RELINK = 64
_TRASH = ".removed-"


def default_workspace() -> Path:
    """CRLC_WORKSPACE where it is set, else this computer's place for a user's data."""
    given = os.environ.get("CRLC_WORKSPACE")
    return Path(given) if given else Path(platformdirs.user_data_dir("crlc-studio", appauthor=False))


@dataclass(frozen=True)
class RelinkReport:
    """What was found at the new place of the originals."""

    found: int
    expected: int
    location: str


class Workspace:
    """A folder with data sets in it, made when first written to."""

    def __init__(self, root: Path | None = None) -> None:
        """Take a folder; by default the user's own.

        Raises:
            UsageError: it is a file.
        """
        self.root = (root or default_workspace()).expanduser().absolute()
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"The workspace {self.root} is a file; it must be a folder. Choose another --workspace.")

    # ---- reading

    def dataset_names(self) -> list[str]:
        """Names of all data sets, also of those whose import has not finished or whose files are damaged."""
        with suppress(FileNotFoundError):
            folders = (folder for folder in self._datasets.iterdir() if not folder.name.startswith("."))
            return sorted(folder.name for folder in folders if (folder / INFO_FILE).exists())
        return []

    def dataset(self, name: str) -> ImageDataset:
        """Open a data set.

        Raises:
            NotFoundError: there is none of that name; the nearest one is offered.
        """
        self._require(name)
        return ImageDataset(self._datasets / name)

    def _require(self, name: str) -> None:
        names = self.dataset_names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names) or 'none yet'}."
            raise NotFoundError(f"No data set is named {printable(name)!r} in {self.root}. {hint}")

    def is_being_written(self, name: str) -> bool:
        """Whether somebody imports, re-links or removes a data set right now, in whatever process."""
        try:
            with self._lock(name):
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
    ) -> tuple[ImageDataset, ImportReport]:
        """Make a data set of a source, carry on an interrupted import, or bring one up to date.

        Args:
            given: a path or the name of a built-in set.
            name: what to call it; by default after the source.
            options: how to import; what they leave open stays as it was.
            downloads: where built-in sets are kept; by default in the workspace.
            report: told about progress.

        Raises:
            CrlcError: with nothing changed, unless it says otherwise.
        """
        options = (options or ImportOptions()).with_absolute_paths()
        with disk_full_explained(self.root):
            downloads = (downloads or self.root / "downloads").absolute()
            source = open_source(given, downloads)
            name = check_name(name) if name is not None else self._fitting_name(source)
            with self._lock(name):
                info, is_new = self._prepare(name, source, downloads, options)
                folder = self._datasets / name
                try:
                    outcome = Importer(folder, source, info.options, report).run()
                except CrlcError:
                    if is_new and not _anything_imported(folder):
                        shutil.rmtree(folder, ignore_errors=True)
                    raise
                # What was said this time, and the size chosen, are remembered once it has worked.
                replace(info, size=info.size or outcome.sizes[0]).save(folder)
                return ImageDataset(folder), outcome

    def relink(self, name: str, new_location: str) -> RelinkReport:
        """Tell a data set where its originals are now, after checking that they are.

        Raises:
            SourceError: fewer than half of them are there, or their content is another.
        """
        self._require(name)
        with self._lock(name):
            dataset = self.dataset(name)
            source = open_source(new_location, Path(dataset.info.downloads))
            if source.kind != dataset.info.source_kind:
                raise SourceError(
                    f"{name} was imported from a {dataset.info.source_kind}, but {source.location} is a {source.kind}."
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

    def remove(self, name: str) -> None:
        """Forget a data set and its decoded pixels, also a damaged one. The originals are not touched."""
        self._require(name)
        with self._lock(name):
            # Renamed first: whoever lists the data sets sees it whole or not at all.
            folder = self._datasets / name
            folder.rename(folder.with_name(f"{_TRASH}{uuid.uuid4().hex}"))
        for trash in self._datasets.glob(f"{_TRASH}*"):  # also what an interrupted removal left
            shutil.rmtree(trash, ignore_errors=True)

    # ---- inside

    @property
    def _datasets(self) -> Path:
        return self.root / "datasets"

    def _lock(self, name: str) -> AbstractContextManager[None]:
        return writer_lock(self.root / "locks" / f"dataset-{name}.lock", f"The data set {name!r}")

    def _fitting_name(self, source: Source) -> str:
        """The name of the data set made from this source before, or a free one after the source."""
        usual = _name_for(source)
        names = sorted(self.dataset_names(), key=lambda name: name != usual)
        for name in names:
            with suppress(CrlcError):
                info = DatasetInfo.load(self._datasets / name)
                if (info.source_kind, info.location) == (source.kind, source.location):
                    return name
        return self._free_name(usual) if usual in names else usual

    def _prepare(self, name: str, source: Source, downloads: Path, options: ImportOptions) -> tuple[DatasetInfo, bool]:
        """The data set's description, made or brought up to date in memory; and whether it is new."""
        folder = self._datasets / name
        if (folder / INFO_FILE).exists():
            info = DatasetInfo.load(folder)
            if (info.source_kind, info.location) != (source.kind, source.location):
                raise UsageError(
                    f"A data set named {name!r} exists already, made from {printable(info.location)}. "
                    f"Give this one another name: --name {self._free_name(name)}."
                )
            return replace(info, options=options.or_else(info.options)), False
        folder.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        info = DatasetInfo(name, uuid.uuid4().hex, source.kind, source.location, str(downloads), options, created)
        info.save(folder)
        return info, True

    def _free_name(self, name: str) -> str:
        taken = set(self.dataset_names())
        return next(f"{name}-{number}" for number in range(2, len(taken) + 3) if f"{name}-{number}" not in taken)


def check_name(name: str) -> str:
    """A name that can be a folder's on every computer.

    Raises:
        UsageError: it cannot.
    """
    if not re.fullmatch(r"\w[\w.-]*", name) or len(name) > _LONGEST_NAME or name.endswith("."):
        raise UsageError(
            f"name={printable(name)!r} is not allowed: use up to {_LONGEST_NAME} letters, digits, dots, dashes or "
            "underscores, starting with a letter or digit."
        )
    return name


def _name_for(source: Source) -> str:
    stem = Path(source.location).name if source.kind in ("folder", "builtin") else Path(source.location).stem
    plain = unicodedata.normalize("NFC", stem.encode("utf-8", "replace").decode()).lower()
    return re.sub(r"[^\w.-]+", "-", plain).strip("-._")[:_LONGEST_NAME].rstrip(".") or "images"


def _anything_imported(folder: Path) -> bool:
    try:
        with Manifest(folder) as manifest:
            return manifest.count("ok") > 0
    except CrlcError:
        return False


def _count_found(manifest: Manifest, source: Source) -> int:
    query = "SELECT 1 FROM images WHERE path = ? AND bytes = ? AND status = 'ok'"
    return sum(
        manifest.connection.execute(query, (path_to_bytes(entry.path), entry.bytes)).fetchone() is not None
        for entry in source.entries()
        if entry.problem is None
    )


def _compare_contents(manifest: Manifest, source: Source) -> None:
    """Files of the right name and length may still be others: look into some."""
    for record in manifest.sample(_HASHED_ON_RELINK):
        try:
            digest = content_hash(source.read(record.path)).hex()
        except UnreadableError:
            continue
        if digest != record.hash:
            raise SourceError(
                f"{printable(record.path)} in {source.location} is another picture than the one imported. "
                "Nothing was changed; import that folder under a --name of its own."
            )
