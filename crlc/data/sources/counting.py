"""Number of the files of a source, counted before an import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from crlc.data.sources.base import Source
from crlc.progress import ProgressCallback, ProgressStage, no_progress

MAX_COUNTED_FILES = 500_000
"""Counting stops here: a whole disk would take minutes."""

_FILE_KINDS = ("folder", "zip")
IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp", ".avif", ".heic"),
    *(".heif", ".jp2", ".j2k", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico", ".pcx", ".sgi", ".dds"),
)
"""Suffixes of files that may be images, in lower case."""


@dataclass(frozen=True)
class SourceCount:
    """Number and size of the files of a source."""

    images: int
    """Files with the suffix of an image; in a source that has no files, all its images."""

    others: int
    """Further files; an import tries to read them, too."""

    folders: int
    bytes: int
    is_complete: bool = True
    """False if the source has more files than were counted."""

    @property
    def files(self) -> int:
        """Number of all files."""
        return self.images + self.others


def count_source_files(
    source: Source, report: ProgressCallback = no_progress, *, limit: int = MAX_COUNTED_FILES
) -> SourceCount:
    """Count the files of a source.

    Args:
        source: the source.
        report: receives the progress; an error that it raises ends the counting.
        limit: number of files after which counting stops.
    """
    stage = ProgressStage("Counting files", None, report, unit="files")
    images = others = total_bytes = 0
    folders: set[str] = set()
    has_files = source.kind in _FILE_KINDS
    for entry in source.list_entries():
        if images + others == limit:
            return SourceCount(images, others, len(folders), total_bytes, is_complete=False)
        path = PurePosixPath(entry.path)
        if has_files and path.suffix.lower() not in IMAGE_SUFFIXES:
            others += 1
        else:
            images += 1
        folders.add(str(path.parent))
        total_bytes += entry.bytes
        stage.advance()
    return SourceCount(images, others, len(folders), total_bytes)
