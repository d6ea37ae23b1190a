"""Export of one folder per cluster with links to the original images, or copies of them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crlc.export.destinations import add_number, make_safe_file_name
from crlc.export.image_placing import ImagePlacer, build_new_folder, make_placer, require_readable_originals
from crlc.export.rows import RunExport
from crlc.progress import ProgressCallback, ProgressStage, no_progress

_MIN_DIGITS = 2
"""Minimum number of digits of the cluster numbers in folder names."""


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
        SourceError: the original images were moved or deleted, or none of them can be read.
        CrlcError: the folder cannot be written.
    """
    placer = make_placer(export.dataset, kind)
    with build_new_folder(folder, export.dataset) as building:
        written = _FolderBuilder(export, building, placer).build(report)
        require_readable_originals(export.dataset, written.images, written.missing)
        return written


class _FolderBuilder:
    """Builder of the cluster folders, which fills them with links or copies."""

    def __init__(self, export: RunExport, building: Path, placer: ImagePlacer) -> None:
        self._export, self._building, self._placer = export, building, placer
        self._digits = max(_MIN_DIGITS, len(str(export.clusters.numbers[-1])))
        self._folders: dict[int, Path] = {}
        self._name_counts: dict[Path, int] = {}
        """Number of images with the same name, for names that occur more than once."""

    def build(self, report: ProgressCallback) -> FoldersReport:
        """Create a link or copy of every image."""
        stage = ProgressStage(self._placer.stage, self._export.count_images(), report)
        images = excluded = not_assigned = missing = 0
        for chunk in self._export.iterate_chunks():
            excluded += chunk.count_excluded()
            not_assigned += chunk.count_not_assigned()
            for row in np.flatnonzero(chunk.is_included).tolist():
                is_created = self._put(chunk.paths[row], self._get_folder(int(chunk.cluster[row]))) is not None
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

    def _put(self, path: str, folder: Path) -> Path | None:
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
