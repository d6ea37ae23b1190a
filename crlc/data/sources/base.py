"""Interface of image sources: list the images, and read the raw content of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FILE_BYTES = 1 << 30
"""Larger files are recorded as unreadable: no camera writes them, and one could exhaust the memory."""

SPLITS = ("train", "test", "val", "unlabelled")
"""Names of the splits, as the manifest stores them."""

_SPLIT_SPELLINGS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "unlabelled": "unlabelled",
    "unlabeled": "unlabelled",
}

RawImage: TypeAlias = "bytes | NDArray[Any]"
"""An image as its source stores it: an encoded file, or one item of an array."""


def parse_split(name: str) -> str | None:
    """Return the split named by a folder or a CSV cell, or `None`."""
    return _SPLIT_SPELLINGS.get(name.lower())


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One listed file or array item, before its content is read."""

    path: str
    """Path inside the source, with forward slashes; the argument of `Source.read`."""

    bytes: int
    stamp: str
    """Changes whenever the file changes: times, inode or checksum, known without reading the file."""

    split: str | None = None
    class_name: str | None = None

    problem: str | None = None
    """Reason why it cannot be read, if known from the listing (a broken link, a locked folder)."""

    cells: tuple[str, ...] = ()
    """Values of the further columns of a CSV list, in the order of `CsvSource.column_names`."""


class UnreadableError(Exception):
    """One image cannot be read; the message is the reason that the user sees."""


class Source(Protocol):
    """A source of images. It must be picklable: worker processes receive a copy."""

    @property
    def kind(self) -> str:
        """Kind of the source: `folder`, `zip`, `csv`, `npz` or `builtin`."""
        ...

    @property
    def location(self) -> str:
        """Absolute path, or name of a built-in dataset."""
        ...

    @property
    def has_folders(self) -> bool:
        """Whether the images are in folders, which may be classes."""
        ...

    def list_entries(self) -> Iterator[SourceEntry]:
        """Yield all files, in any order."""
        ...

    def read(self, path: str) -> RawImage:
        """Return the content of one listed image.

        Raises:
            UnreadableError: it cannot be read.
        """
        ...
