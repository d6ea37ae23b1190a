"""Source for a folder of images and its subfolders, which is only read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crlc.data.sources.base import MAX_FILE_BYTES, SourceEntry, UnreadableError, parse_split
from crlc.errors import SourceError

_READ_BYTES = 1 << 20
_SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini", "__macosx"})


def is_hidden(name: str) -> bool:
    """Return whether a name is that of a hidden or system file or folder."""
    return name.startswith(".") or name.lower() in _SYSTEM_FILES


def describe_os_error(error: OSError) -> str:
    """Return a reason for the user why a file could not be read."""
    if isinstance(error, FileNotFoundError):
        return "the file does not exist"
    if isinstance(error, PermissionError):
        return "permission denied"
    return f"the system could not read it ({error.strerror or error})"


def make_stamp(status: os.stat_result) -> str:
    """Return a text that changes when a file changes, or is replaced by another with the same modification time."""
    return f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def read_file(path: str | Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        UnreadableError: the file cannot be read; the message is the reason that the user sees.
    """
    try:
        # A named pipe that replaced an image after the listing must not block this process.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableError("not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise UnreadableError("larger than 1 GiB")
            return _read_all(handle, status.st_size)
        finally:
            os.close(handle)
    except OSError as error:
        raise UnreadableError(describe_os_error(error)) from None


def _read_all(handle: int, expected: int) -> bytes:
    """Return the content of an open file, with a single read if it has the expected length."""
    content = os.read(handle, expected + 1)
    if len(content) == expected:
        return content
    parts = [content]
    while part := os.read(handle, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)


@dataclass(frozen=True)
class FolderSource:
    """All files of a folder and its subfolders. Hidden files are skipped, links are followed once."""

    location: str
    kind: str = "folder"
    has_folders: bool = True

    def __post_init__(self) -> None:
        """Check that the folder can be listed.

        Raises:
            SourceError: the folder cannot be listed.
        """
        try:
            with os.scandir(self.location):
                pass
        except OSError as error:
            raise SourceError(
                f"The folder {self.location} cannot be opened: {describe_os_error(error)}.",
                advice="Check the path and its permissions.",
            ) from None

    def list_entries(self) -> Iterator[SourceEntry]:
        """Yield every file of the folder and its subfolders."""
        top_is_splits = self._top_folders_are_splits()
        visited = {_get_identity(os.stat(self.location))}
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                listing = os.scandir(os.path.join(self.location, folder))
            except OSError as error:
                yield SourceEntry(folder, 0, "", problem=f"the folder cannot be opened: {describe_os_error(error)}")
                continue
            try:
                with listing:
                    for item in listing:
                        if is_hidden(item.name):
                            continue
                        path = f"{folder}/{item.name}" if folder else item.name
                        entry = self._make_entry(item, path, visited, pending)
                        if entry is None:
                            continue
                        split = parse_split(path.split("/", 1)[0]) if top_is_splits and "/" in path else None
                        yield (
                            entry
                            if split is None
                            else SourceEntry(path, entry.bytes, entry.stamp, split, None, entry.problem)
                        )
            except OSError as error:  # a folder that disappears, such as that of an ended process in /proc
                problem = f"the folder cannot be listed completely: {describe_os_error(error)}"
                yield SourceEntry(folder, 0, "", problem=problem)

    def read(self, path: str) -> bytes:
        """Return the content of one file."""
        return read_file(os.path.join(self.location, path))

    def original(self, path: str) -> Path:
        """Return the path of the file on this computer."""
        return Path(self.location, path)

    def _make_entry(
        self, item: os.DirEntry[str], path: str, visited: set[tuple[int, int]], pending: list[str]
    ) -> SourceEntry | None:
        """Return the entry of a file, or `None` for a folder, which is added to `pending`."""
        try:
            status = item.stat()
        except OSError as error:
            broken = item.is_symlink()
            return SourceEntry(path, 0, "", problem="a broken link" if broken else describe_os_error(error))
        if stat.S_ISDIR(status.st_mode):
            # DirEntry.stat() returns no inode on Windows; os.stat does.
            identity = _get_identity(status if status.st_ino else os.stat(item.path))
            if identity not in visited:  # a link to a parent folder would cause an endless loop
                visited.add(identity)
                pending.append(path)
            return None
        if not stat.S_ISREG(status.st_mode):
            return SourceEntry(path, 0, "", problem="not a regular file")
        return SourceEntry(path, status.st_size, make_stamp(status))

    def _top_folders_are_splits(self) -> bool:
        """Return whether all subfolders are splits, such as train/ and test/."""
        names: list[str] = []
        with suppress(OSError), os.scandir(self.location) as listing:
            names = [item.name for item in listing if not is_hidden(item.name) and item.is_dir()]
        return bool(names) and all(parse_split(name) for name in names)


def _get_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
