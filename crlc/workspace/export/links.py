"""A folder for each cluster, with links to the originals, or copies of them."""

from __future__ import annotations

import errno
import io
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from crlc.data.dataset import ImageDataset
from crlc.data.decode import decode_fitted
from crlc.data.sources import Source, UnreadableError
from crlc.errors import CrlcError, UsageError
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.workspace.export.file_names import numbered_name, safe_file_name
from crlc.workspace.export.places import require_new_folder, trouble_explained
from crlc.workspace.export.rows import RunExport

KINDS = ("absolute", "relative", "copy")
_FEWEST_DIGITS = 2


@runtime_checkable
class _HasFiles(Protocol):
    """A source whose images are files of this computer."""

    def original(self, path: str) -> Path:
        """Where the file lies."""
        ...


@dataclass(frozen=True)
class LinksReport:
    """What was made, and what was left out."""

    images: int
    clusters: int
    excluded: int
    not_assigned: int
    missing: int
    """Originals that are not there, or cannot be read."""


def write_links(
    export: RunExport, folder: Path, kind: str = "absolute", report: ProgressCallback = no_progress
) -> LinksReport:
    """Make a folder with one folder per cluster; it is there whole or not at all.

    Excluded images and those that the run has not assigned are left out.

    Args:
        export: the run.
        folder: not there yet, or empty.
        kind: absolute links; relative ones, which live on when both folders are moved together; or copies.
        report: told how far it is.

    Raises:
        UsageError: the folder holds something, or the images are no files that could be linked to.
        SourceError: the originals are not where they were.
        CrlcError: it cannot be written.
    """
    if kind not in KINDS:
        raise UsageError(f"kind={kind!r} is not allowed: it must be one of {', '.join(KINDS)}.")
    require_new_folder(folder, export.dataset)
    placer = _placer(export.dataset, kind)
    target = Path(os.path.realpath(folder))
    # A sibling: links relative to it are right in the end, and renaming it is one step.
    building = target.parent / f".crlc-{uuid.uuid4().hex}.part"
    try:
        with trouble_explained(folder):
            building.mkdir()
            result = _Filling(export, building, placer).fill(report)
            if target.exists():
                target.rmdir()  # still empty, or this fails
            building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return result


def _placer(dataset: ImageDataset, kind: str) -> _Placer:
    source = dataset.source
    if kind == "copy":
        return _Copier(source)
    if not isinstance(source, _HasFiles):
        raise UsageError(
            f"The images of {dataset.name} are no single files (it comes from: {source.kind}), so nothing can be "
            "linked to. Ask for copies with --copy."
        )
    return _Linker(source, relative=kind == "relative")


class _Filling:
    """The folders of clusters on their way."""

    def __init__(self, export: RunExport, building: Path, placer: _Placer) -> None:
        self._export, self._building, self._placer = export, building, placer
        self._digits = max(_FEWEST_DIGITS, len(str(export.clusters.numbers[-1])))
        self._folders: dict[int, Path] = {}
        self._taken: dict[Path, int] = {}
        """How often a name was wanted, for those that were wanted twice."""

    def fill(self, report: ProgressCallback) -> LinksReport:
        """Put every image in its place."""
        stage = Stage(self._placer.stage, self._export.count(), report)
        images = excluded = not_assigned = missing = 0
        for chunk in self._export.chunks():
            wanted = chunk.assigned & ~chunk.excluded
            excluded += int(chunk.excluded.sum())
            not_assigned += int((~chunk.assigned & ~chunk.excluded).sum())
            for row in np.flatnonzero(wanted).tolist():
                there = self._put(chunk.paths[row], self._folder(int(chunk.cluster[row])))
                images, missing = images + there, missing + (not there)
            stage.advance(len(chunk.paths))
        stage.finish()
        return LinksReport(images, len(self._folders), excluded, not_assigned, missing)

    def _folder(self, cluster: int) -> Path:
        if cluster not in self._folders:
            name = self._export.names.get(cluster)
            number = f"{cluster:0{self._digits}}"
            folder = self._building / (number if name is None else safe_file_name(f"{number}-{name}"))
            folder.mkdir()
            self._folders[cluster] = folder
        return self._folders[cluster]

    def _put(self, path: str, folder: Path) -> bool:
        """Under its own name, or with the first number that is free; the file system says what is the same name."""
        name = safe_file_name(os.path.basename(path))
        try:
            return self._placer.put(path, folder / name)
        except FileExistsError:
            while True:
                number = self._taken[folder / name] = self._taken.get(folder / name, 1) + 1
                with suppress(FileExistsError):
                    return self._placer.put(path, folder / numbered_name(name, number))


class _Placer(Protocol):
    """Puts images where they are wanted."""

    stage: str

    def put(self, path: str, place: Path) -> bool:
        """Put the image at a path of the source there; false when it cannot be read.

        Raises:
            FileExistsError: the name is taken.
        """
        ...


class _Linker:
    """Makes links to files."""

    stage = "Linking"

    def __init__(self, source: _HasFiles, *, relative: bool) -> None:
        self._source, self._relative = source, relative

    def put(self, path: str, place: Path) -> bool:
        """Link to the original."""
        original = str(self._source.original(path))
        if not os.path.exists(original):
            return False
        if self._relative:
            folder, name = os.path.split(original)
            original = os.path.join(os.path.relpath(os.path.realpath(folder), place.parent), name)
        try:
            os.symlink(original, place)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP) or os.name == "nt":
                raise CrlcError(f"This system makes no links there ({error.strerror}). Ask for copies.") from None
            raise
        return True


class _Copier:
    """Writes files as they are; items of arrays as PNG."""

    stage = "Copying"

    def __init__(self, source: Source) -> None:
        self._source = source

    def put(self, path: str, place: Path) -> bool:
        """Copy the original."""
        try:
            content = self._source.read(path)
            if not isinstance(content, bytes):
                place = place.with_name(f"{place.name}.png")
                picture = io.BytesIO()
                decode_fitted(content, max(content.shape[:2])).save(picture, "PNG")
                content = picture.getvalue()
        except UnreadableError:
            return False
        with place.open("xb") as stream:
            stream.write(content)
        return True
