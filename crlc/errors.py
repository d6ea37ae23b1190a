"""Errors that the CLI and the app show to the user, each in one line: what is wrong, then what to do."""

from __future__ import annotations

import errno
import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_MIN_FREE_BYTES = 1 << 16
_DISK_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)
_ACCESS_CODES = (errno.EACCES, errno.EPERM, errno.EROFS)
_OPEN_FILES_CODES = (errno.EMFILE, errno.ENFILE)
# A disk that was unplugged or does not answer, a network drive or a mounted service that is away.
_UNAVAILABLE_NAMES = ("EIO", "ENXIO", "ENODEV", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EREMOTEIO")
_UNAVAILABLE_CODES = tuple(getattr(errno, name) for name in _UNAVAILABLE_NAMES if hasattr(errno, name))
# What the loaders of shared libraries (Linux, macOS, Windows), Python's threads, the allocator of torch and the
# libraries of CUDA say.
_OUT_OF_MEMORY_PATTERN = re.compile(
    "failed to map segment|cannot allocate memory|can't allocate memory|out of memory|can't start new thread|"
    "paging file is too small|"
    "CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
    re.IGNORECASE,
)


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


class FormatVersionError(DamagedError):
    """A workspace file has the format version of another version of the program: it must not be overwritten."""


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


class OutOfMemoryError(CrlcError):
    """The memory of the computer is exhausted."""


class AccessError(CrlcError):
    """The user has no permission to read or write a file or folder."""

    @classmethod
    def for_path(cls, path: Path | str, purpose: str) -> AccessError:
        """Return the error for a file or folder.

        Args:
            path: the file or folder.
            purpose: "read", "written" or "used".
        """
        return cls(
            f"{path} cannot be {purpose}: permission denied.",
            advice="Check the permissions of the file and its folder, or choose another workspace.",
            parameters=("workspace",),
        )


class UnavailableError(CrlcError):
    """A file cannot be read or written at the moment; nothing says that it is damaged."""


def explain_system_error(error: Exception, path: Path) -> CrlcError | None:
    """Return the error for the user if the disk, memory or a permission is the cause; otherwise `None`.

    Args:
        error: any error.
        path: file or folder that the failed operation used, for errors that name none.
    """
    if isinstance(error, CrlcError):
        return error
    if is_out_of_memory(error):
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        what = "to load a library" if isinstance(error, ImportError) else "for this operation"
        return OutOfMemoryError(
            f"There is not enough memory {what} ({reason}).",
            advice="Close other programs, or use a computer with more memory, and try again.",
        )
    try:
        with explain_disk_full(path):
            raise error
    except DiskFullError as full:
        return full
    except OSError as other:
        return _explain_access(other, path)
    except Exception:
        return None
    return None


def _explain_access(error: OSError, path: Path) -> CrlcError | None:
    """Return the error for a file that may be usable later: its advice must not be to delete anything."""
    if error.errno in _ACCESS_CODES:
        return AccessError.for_path(error.filename or path, "used")
    if error.errno == errno.EFBIG:
        return CrlcError(
            f"{error.filename or path}: the disk allows no file as large as is needed. Finished work is kept.",
            advice="Choose another disk: one in the format FAT32, for example, has files of up to 4 GB.",
            parameters=("workspace",),
        )
    advice = {
        **dict.fromkeys(_OPEN_FILES_CODES, "Close other programs, or raise the limit of open files, and try again."),
        **dict.fromkeys(_UNAVAILABLE_CODES, "Check that its disk or network drive is connected, and try again."),
    }.get(error.errno or 0)
    if advice is None:
        return None
    message = f"{error.filename or path} cannot be used at the moment ({error.strerror or error})."
    return UnavailableError(message, advice=advice)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, such as while a library is loaded."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, (ImportError, OSError, RuntimeError)) and bool(_OUT_OF_MEMORY_PATTERN.search(str(error)))


@contextmanager
def explain_disk_full(path: Path) -> Iterator[None]:
    """Convert system and SQLite errors to `DiskFullError` when the disk that holds `path` is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL_CODES:
            raise
        raise DiskFullError.for_path(path) from error
    except sqlite3.OperationalError as error:
        # SQLite reports an input/output error when there is no space for its shared-memory file (-shm).
        code = get_sqlite_code(error)
        if code != sqlite3.SQLITE_FULL and not (code == sqlite3.SQLITE_IOERR and is_disk_full(path)):
            raise
        raise DiskFullError.for_path(path) from error


def get_sqlite_code(error: sqlite3.Error) -> int:
    """Return the primary code of an SQLite error.

    Errors that Python itself raises have no `sqlite_errorcode`: an OperationalError is about stored text that is not
    UTF-8, which is damage; any other is a wrong call.
    """
    missing = sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError) else sqlite3.SQLITE_MISUSE
    return (getattr(error, "sqlite_errorcode", None) or missing) & 0xFF


def is_disk_full(path: Path) -> bool:
    """Return whether the disk that holds a file or its folder has no space even for a small file."""
    try:
        return shutil.disk_usage(path if path.exists() else path.parent).free < _MIN_FREE_BYTES
    except OSError:
        return False
