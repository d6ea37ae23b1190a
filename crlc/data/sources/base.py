"""What every source of images offers: a listing, and the raw content of one image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_FILE_BYTES = 1 << 30
"""Larger files are recorded as unreadable: no camera makes them, and one could fill the memory."""

SPLITS = ("train", "test", "val", "unlabelled")
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
"""An image as its source holds it: an encoded file, or one item of an array."""


def split_named(name: str) -> str | None:
    """The split that a folder or a CSV cell of that name stands for, if any."""
    return _SPLIT_SPELLINGS.get(name.lower())


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed file (or array item), before anything of it was read."""

    path: str
    """Its name inside the source, with forward slashes; what the source's `read` takes."""

    bytes: int
    stamp: str
    """Changes whenever the file does: times, inode, checksum, whatever the source has without reading it."""

    split: str | None = None
    class_name: str | None = None

    problem: str | None = None
    """Why it cannot be read, when the listing knows already (a broken link, a locked folder)."""


class UnreadableError(Exception):
    """One image cannot be read; the message is the reason that people see."""


class Source(Protocol):
    """A place that images come from. Workers receive a pickled copy."""

    @property
    def kind(self) -> str:
        """The name under which `open_source` knows this kind."""
        ...

    @property
    def location(self) -> str:
        """An absolute path, or the name of a built-in set."""
        ...

    @property
    def has_folders(self) -> bool:
        """Whether the images lie in folders, which may stand for classes."""
        ...

    def entries(self) -> Iterator[Entry]:
        """List everything there, in any order, without holding the list."""
        ...

    def read(self, path: str) -> RawImage:
        """The content of one listed image.

        Raises:
            UnreadableError: it cannot be read, with the reason.
        """
        ...
