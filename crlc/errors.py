"""Every error a person may see. One line each: what was given, what is wrong, what to do."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
        raise _disk_full(where) from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        raise _disk_full(where) from error


def _disk_full(where: Path) -> DiskFullError:
    return DiskFullError(
        f"The disk holding {where} is full. What was finished is kept: free some space "
        "(or choose another place with --workspace) and run the same command again to carry on."
    )
