"""Export of one folder per cluster with links to the original images, or copies of them."""

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
from crlc.data.decode import decode_whole
from crlc.data.sources import Source, UnreadableError
from crlc.errors import CrlcError, UsageError
from crlc.export.destinations import add_number, explain_write_errors, make_safe_file_name, require_new_folder
from crlc.export.rows import RunExport
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

LINK_KINDS = ("absolute", "relative", "copy")
_MIN_DIGITS = 2
"""Minimum number of digits of the cluster numbers in folder names."""


@runtime_checkable
class _HasFiles(Protocol):
    """Source whose images are files on this computer."""

    def original(self, path: str) -> Path:
        """Return the path of the file."""
        ...


@dataclass(frozen=True)
class FoldersReport:
    """Number of images in the export, and of those left out by reason."""

    images: int
    clusters: int
    excluded: int
    not_assigned: int
    missing: int
    """Original images that do not exist or cannot be read."""


def write_cluster_folders(
    export: RunExport, folder: Path, kind: str = "absolute", report: ProgressCallback = no_progress
) -> FoldersReport:
    """Create a folder with one subfolder per cluster. After an error, nothing is left behind.

    Excluded images and images without a cluster are left out.

    Args:
        export: the rows of the run.
        folder: path of the new folder, which must not exist or must be empty.
        kind: `absolute` links; `relative` links, which stay valid if both folders are moved together; or `copy`.
        report: receives progress.

    Raises:
        UsageError: the folder is not empty, or the images are not files that can be linked to.
        SourceError: the original images were moved or deleted.
        CrlcError: the folder cannot be written.
    """
    if kind not in LINK_KINDS:
        raise UsageError(f"kind={kind!r} is not allowed: it must be one of {', '.join(LINK_KINDS)}.")
    require_new_folder(folder, export.dataset)
    placer = _make_placer(export.dataset, kind)
    target = Path(os.path.realpath(folder))
    # Built beside its destination: relative links stay valid, and the rename is atomic.
    building = target.parent / f".crlc-{uuid.uuid4().hex}.part"
    try:
        with explain_write_errors(folder):
            building.mkdir()
            result = _FolderBuilder(export, building, placer).build(report)
            if target.exists():
                target.rmdir()  # raises an error if it is no longer empty
            building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return result


def _make_placer(dataset: ImageDataset, kind: str) -> _Placer:
    source = dataset.source
    if kind == "copy":
        return _Copier(source)
    if not isinstance(source, _HasFiles):
        raise UsageError(
            f"The images of {dataset.name} are not single files (its source is: {source.kind}), so they cannot be "
            "linked to.",
            advice="Export copies instead of links.",
            parameters=("copy",),
        )
    return _Linker(source, relative=kind == "relative")


class _FolderBuilder:
    """Builder of the cluster folders, which fills them with links or copies."""

    def __init__(self, export: RunExport, building: Path, placer: _Placer) -> None:
        self._export, self._building, self._placer = export, building, placer
        self._digits = max(_MIN_DIGITS, len(str(export.clusters.numbers[-1])))
        self._folders: dict[int, Path] = {}
        self._name_counts: dict[Path, int] = {}
        """Number of images with the same name, for names that occur more than once."""

    def build(self, report: ProgressCallback) -> FoldersReport:
        """Create a link or copy of every image."""
        stage = ProgressStage(self._placer.stage, self._export.count_images(), report)
        images = excluded = not_assigned = missing = 0
        for chunk in self._export.iter_chunks():
            is_included = chunk.is_assigned & ~chunk.is_excluded
            excluded += int(chunk.is_excluded.sum())
            not_assigned += int((~chunk.is_assigned & ~chunk.is_excluded).sum())
            for row in np.flatnonzero(is_included).tolist():
                is_created = self._put(chunk.paths[row], self._get_folder(int(chunk.cluster[row])))
                images, missing = images + is_created, missing + (not is_created)
            stage.advance(len(chunk.paths))
        stage.finish()
        return FoldersReport(images, len(self._folders), excluded, not_assigned, missing)

    def _get_folder(self, cluster: int) -> Path:
        if cluster not in self._folders:
            name = self._export.names.get(cluster)
            number = f"{cluster:0{self._digits}}"
            folder = self._building / (number if name is None else make_safe_file_name(f"{number}-{name}"))
            folder.mkdir()
            self._folders[cluster] = folder
        return self._folders[cluster]

    def _put(self, path: str, folder: Path) -> bool:
        """Create the image under its own name, or with the first free number.

        The file system decides which names are equal, because it may ignore case.
        """
        name = make_safe_file_name(os.path.basename(path))
        try:
            return self._placer.put(path, folder / name)
        except FileExistsError:
            while True:
                number = self._name_counts[folder / name] = self._name_counts.get(folder / name, 1) + 1
                with suppress(FileExistsError):
                    return self._placer.put(path, folder / add_number(name, number))


class _Placer(Protocol):
    """Creates a link or copy of one image."""

    stage: str

    def put(self, path: str, destination: Path) -> bool:
        """Create the image at `destination`; return False if the original cannot be read.

        Raises:
            FileExistsError: `destination` exists.
        """
        ...


class _Linker:
    """Creates symbolic links."""

    stage = "Linking"

    def __init__(self, source: _HasFiles, *, relative: bool) -> None:
        self._source, self._relative = source, relative

    def put(self, path: str, destination: Path) -> bool:
        """Create a link to the original image."""
        original = str(self._source.original(path))
        if not os.path.exists(original):
            return False
        if self._relative:
            folder, name = os.path.split(original)
            original = os.path.join(os.path.relpath(os.path.realpath(folder), destination.parent), name)
        try:
            os.symlink(original, destination)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP) or os.name == "nt":
                raise CrlcError(
                    f"{to_printable(str(destination))} cannot be a link: {error.strerror}.",
                    advice="Export copies instead of links.",
                    parameters=("copy",),
                ) from None
            raise
        return True


class _Copier:
    """Copies files unchanged; items of arrays are written as PNG."""

    stage = "Copying"

    def __init__(self, source: Source) -> None:
        self._source = source

    def put(self, path: str, destination: Path) -> bool:
        """Copy the original image."""
        try:
            content = self._source.read(path)
            if not isinstance(content, bytes):
                destination = destination.with_name(f"{destination.name}.png")
                png = io.BytesIO()
                decode_whole(content, max(content.shape[:2])).save(png, "PNG")
                content = png.getvalue()
        except UnreadableError:
            return False
        with destination.open("xb") as stream:
            stream.write(content)
        return True
