"""Every error a person may see. One line each: what was given, what is wrong, what to do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SMALL_BYTES = 1 << 16


class CrlcError(Exception):
    """Something went wrong that a person can understand and mend."""

    exit_code = 1


class UsageError(CrlcError):
    """An option or argument has a value that cannot work, whatever the data."""

    exit_code = 2


class SourceError(CrlcError):
    """The images cannot be had: nothing there, nothing readable, offline."""


class NotFoundError(CrlcError):
    """A dataset or run of that name does not exist."""


class BusyError(CrlcError):
    """Another process is writing the same thing right now."""


class DamagedError(CrlcError):
    """A file of the workspace is not what this program wrote, or is from a newer one."""


class DiskFullError(CrlcError):
    """The disk of the workspace is full; what was finished is kept."""


@contextmanager
def disk_full_explained(where: Path) -> Iterator[None]:
    """Turn the many faces of a full disk under `where` into one clear error."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise disk_full(where) from error
    except sqlite3.OperationalError as error:
        # Without room for the file that its readers share, SQLite speaks of an input/output error.
        is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL or (
            error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR and no_space_left(where)
        )
        if not is_full:
            raise
        raise disk_full(where) from error


def no_space_left(where: Path) -> bool:
    """Whether the disk that holds a file or its folder has no room even for a small one."""
    try:
        return shutil.disk_usage(where if where.exists() else where.parent).free < _SMALL_BYTES
    except OSError:
        return False


def disk_full(where: Path) -> DiskFullError:
    """The error for a full disk."""
    return DiskFullError(
        f"The disk holding {where} is full. What was finished is kept: free some space "
        "(or choose another place with --workspace) and try again to carry on."
    )
