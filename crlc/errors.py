"""Errors that the CLI and the app show to the user, each in one line: what is wrong, then what to do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_MIN_FREE_BYTES = 1 << 16


class CrlcError(Exception):
    """Base class of errors that are reported to the user with advice."""

    exit_code = 1

    def __init__(self, message: str = "", *, advice: str = "", parameters: Sequence[str] = ()) -> None:
        """Store the parts of the error.

        Args:
            message: what was given and what is wrong with it, as a complete sentence.
            advice: what to do about it, in words that apply to the CLI, the app and the library.
            parameters: names of the parameters that the advice is about, such as `workspace`. The CLI shows them as
                its options.
        """
        super().__init__(message)
        self.message, self.advice, self.parameters = message, advice, tuple(parameters)

    def __str__(self) -> str:
        """Return the message and the advice in one line."""
        return f"{self.message} {self.advice}" if self.advice else self.message


class UsageError(CrlcError, ValueError):
    """An option or argument has an invalid value."""

    exit_code = 2


class SourceError(CrlcError):
    """The images cannot be opened: the source is missing, unreadable or offline."""


class NotFoundError(CrlcError):
    """A dataset, run or file of that name does not exist."""


class BusyError(CrlcError):
    """Another process is writing the same file or folder."""


class DamagedError(CrlcError):
    """A workspace file is missing or damaged, or a newer version of the program wrote it."""


class DiskFullError(CrlcError):
    """The disk of the workspace is full; finished work is kept."""

    @classmethod
    def for_path(cls, path: Path) -> DiskFullError:
        """Return the error for a full disk that holds `path`."""
        return cls(
            f"The disk that holds {path} is full. Finished work is kept.",
            advice="Free some space, or choose another workspace, and try again to continue.",
            parameters=("workspace",),
        )


@contextmanager
def explain_disk_full(path: Path) -> Iterator[None]:
    """Convert system and SQLite errors to `DiskFullError` when the disk that holds `path` is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFullError.for_path(path) from error
    except sqlite3.OperationalError as error:
        # SQLite reports an input/output error when there is no space for its shared-memory file (-shm).
        is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL or (
            error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR and is_disk_full(path)
        )
        if not is_full:
            raise
        raise DiskFullError.for_path(path) from error


def is_disk_full(path: Path) -> bool:
    """Return whether the disk that holds a file or its folder has no space even for a small file."""
    try:
        return shutil.disk_usage(path if path.exists() else path.parent).free < _MIN_FREE_BYTES
    except OSError:
        return False
