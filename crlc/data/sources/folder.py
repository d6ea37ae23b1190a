"""A folder of images, with everything below it. Nothing in it is ever written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crlc.data.sources.base import MAX_FILE_BYTES, Entry, UnreadableError, split_named
from crlc.errors import SourceError

_READ_BYTES = 1 << 20
_SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini", "__macosx"})


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is the system's business, not the person's."""
    return name.startswith(".") or name.lower() in _SYSTEM_FILES


def why_unreadable(error: OSError) -> str:
    """The reason people see for a file that the system would not give."""
    if isinstance(error, FileNotFoundError):
        return "the file is not there any more"
    if isinstance(error, PermissionError):
        return "permission denied"
    return f"the system could not read it ({error.strerror or error})"


def stamp_of(status: os.stat_result) -> str:
    """What changes when a file does. The change time and the inode tell of another file with the same time."""
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def read_file(path: str | Path) -> bytes:
    """The whole content of one ordinary file.

    Raises:
        UnreadableError: with the reason that people see.
    """
    try:
        # A named pipe that took the place of an image since the listing must not block us.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError("not an ordinary file")
            if status.st_size > MAX_FILE_BYTES:
                raise UnreadableError("larger than 1 GiB")
            return _read_all(handle, status.st_size)
        finally:
            os.close(handle)
    except OSError as error:
        raise UnreadableError(why_unreadable(error)) from None


def _read_all(handle: int, expected: int) -> bytes:
    """Everything in an open file: one read where the file is as long as the system said."""
    content = os.read(handle, expected + 1)
    if len(content) == expected:
        return content
    parts = [content]
    while part := os.read(handle, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)


@dataclass(frozen=True)
class FolderSource:
    """All files below a folder; hidden ones are passed over, links are followed once."""

    location: str
    kind: str = "folder"
    has_folders: bool = True

    def __post_init__(self) -> None:
        """Check that the folder can be listed at all.

        Raises:
            SourceError: it cannot.
        """
        try:
            with os.scandir(self.location):
                pass
        except OSError as error:
            raise SourceError(
                f"The folder {self.location} cannot be opened: {why_unreadable(error)}. Check the path and your rights."
            ) from None

    def entries(self) -> Iterator[Entry]:
        """List every file below the folder, streaming."""
        top_is_splits = self._top_folders_are_splits()
        visited = {_identity(os.stat(self.location))}
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                listing = os.scandir(os.path.join(self.location, folder))
            except OSError as error:
                yield Entry(folder, 0, "", problem=f"the folder cannot be opened: {why_unreadable(error)}")
                continue
            with listing:
                for item in listing:
                    if is_hidden(item.name):
                        continue
                    path = f"{folder}/{item.name}" if folder else item.name
                    entry = self._describe(item, path, visited, pending)
                    if entry is None:
                        continue
                    split = split_named(path.split("/", 1)[0]) if top_is_splits and "/" in path else None
                    yield (
                        entry if split is None else Entry(path, entry.bytes, entry.stamp, split, None, entry.problem)
                    )

    def read(self, path: str) -> bytes:
        """The content of one file below the folder."""
        return read_file(os.path.join(self.location, path))

    def original(self, path: str) -> Path:
        """Where the file lies on this computer."""
        return Path(self.location, path)

    def _describe(
        self, item: os.DirEntry[str], path: str, visited: set[tuple[int, int]], pending: list[str]
    ) -> Entry | None:
        """The entry of a file; `None` for a folder, which is put in line to be listed."""
        try:
            status = item.stat()
        except OSError as error:
            broken = item.is_symlink()
            return Entry(path, 0, "", problem="a link to nowhere" if broken else why_unreadable(error))
        if stat.S_ISDIR(status.st_mode):
            # DirEntry.stat() has no inode on Windows; there os.stat is asked once more.
            identity = _identity(status if status.st_ino else os.stat(item.path))
            if identity not in visited:  # a link back to a parent would never end
                visited.add(identity)
                pending.append(path)
            return None
        if not stat.S_ISREG(status.st_mode):
            return Entry(path, 0, "", problem="not an ordinary file")
        return Entry(path, status.st_size, stamp_of(status))

    def _top_folders_are_splits(self) -> bool:
        """Whether the folder holds train/, test/ and the like, and no other folders."""
        names: list[str] = []
        with suppress(OSError), os.scandir(self.location) as listing:
            names = [item.name for item in listing if not is_hidden(item.name) and item.is_dir()]
        return bool(names) and all(split_named(name) for name in names)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
