"""Originals of a dataset: their paths on this computer, and whether they are still in the source."""

from __future__ import annotations

from pathlib import Path

from crlc.data.dataset import RELINK_ADVICE, ImageDataset
from crlc.data.sources import UnreadableError
from crlc.data.sources.folder import FolderSource
from crlc.data.sources.table import CsvSource
from crlc.errors import SourceError
from crlc.paths import to_printable

_CHECKED_IMAGES = 4


def find_missing_originals(dataset: ImageDataset) -> SourceError | None:
    """Return an error if the originals of a dataset cannot be read, or `None` if at least one sampled original can.

    A small sample is enough: if a disk is not plugged in, all originals are missing.
    """
    if dataset.info.options.placeholders:
        return None  # missing files are points, as requested
    try:
        source = dataset.source
    except SourceError as error:
        return error
    records = dataset.sample_records(_CHECKED_IMAGES)
    for record in records:
        try:
            source.read(record.path)
        except UnreadableError:
            continue
        return None
    if not records:
        return None
    return SourceError(
        f"None of {len(records)} sampled images of {dataset.name} can be read from {to_printable(source.location)}.",
        advice=RELINK_ADVICE,
    )


def find_original(dataset: ImageDataset, path: str) -> Path | None:
    """Return the path of an image on this computer; `None` if it is not a file of its own, or its source is missing.

    Args:
        dataset: the dataset of the image.
        path: its path inside the source.
    """
    try:
        source = dataset.source
    except SourceError:
        return None
    return source.original(path) if isinstance(source, FolderSource | CsvSource) else None
