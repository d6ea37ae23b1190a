"""Tests of the errors shown to the user."""

from __future__ import annotations

import errno
import pickle
import sqlite3
from pathlib import Path

import pytest

from crlc.errors import (
    AccessError,
    CrlcError,
    DiskFullError,
    OutOfMemoryError,
    UnavailableError,
    UsageError,
    explain_disk_full,
    explain_system_error,
    get_sqlite_code,
)


def test_error_text_is_the_message_followed_by_the_advice():
    error = CrlcError("It broke.", advice="Mend it.", parameters=["size"])
    assert (error.message, error.advice, error.parameters) == ("It broke.", "Mend it.", ("size",))
    assert str(error) == "It broke. Mend it."
    assert str(CrlcError("It broke.")) == "It broke."


def test_error_keeps_its_parts_between_processes():
    error = pickle.loads(pickle.dumps(UsageError("It broke.", advice="Mend it.")))
    assert (type(error), error.message, error.advice) == (UsageError, "It broke.", "Mend it.")


def test_usage_error_is_a_value_error():
    with pytest.raises(ValueError, match="clusters=1"):
        raise UsageError("clusters=1 is not allowed: it must be from 2 to 100,000.")


def test_explain_disk_full_converts_only_errors_about_space(tmp_path: Path):
    with pytest.raises(DiskFullError) as caught, explain_disk_full(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path) in caught.value.message
    assert caught.value.parameters == ("workspace",)
    with pytest.raises(PermissionError), explain_disk_full(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), OutOfMemoryError, "load a library"),
        (OSError("Error was: libllvmlite.so: cannot allocate memory"), OutOfMemoryError, "for this operation"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), OutOfMemoryError, "Close other programs"),
        (MemoryError(), OutOfMemoryError, "not enough memory"),
        (RuntimeError("can't start new thread"), OutOfMemoryError, "not enough memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), OutOfMemoryError, "not enough memory"),
        (OSError(errno.ENOSPC, "No space left on device"), DiskFullError, "is full"),
        (PermissionError(errno.EACCES, "Permission denied", "run.json"), AccessError, "run.json"),
        (OSError(errno.EROFS, "Read-only file system"), AccessError, "permissions"),
        (OSError(errno.EFBIG, "File too large"), CrlcError, "FAT32"),
        (OSError(errno.EIO, "Input/output error", "run.json"), UnavailableError, "run.json"),
        (OSError(errno.ENODEV, "No such device"), UnavailableError, "connected"),
        (OSError(errno.EMFILE, "Too many open files"), UnavailableError, "open files"),
    ],
)
def test_explain_system_error_names_the_cause(tmp_path: Path, error: Exception, kind: type[CrlcError], words: str):
    explained = explain_system_error(error, tmp_path)
    assert type(explained) is kind
    assert words in str(explained)


def test_explain_system_error_leaves_other_errors_alone(tmp_path: Path):
    missing = ImportError("No module named 'torch'")
    for error in (ValueError("wrong"), KeyError("missing"), missing, OSError(errno.EXDEV, "Invalid link")):
        assert explain_system_error(error, tmp_path) is None
    known = UsageError("clusters=1 is not allowed.")
    assert explain_system_error(known, tmp_path) is known


def test_get_sqlite_code_of_an_error_without_one():
    """Python itself raises this error: it has no `sqlite_errorcode`."""
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(":memory:").execute("SELECT CAST(x'ff' AS TEXT)").fetchone()
    assert not hasattr(caught.value, "sqlite_errorcode")
    assert get_sqlite_code(caught.value) == sqlite3.SQLITE_CORRUPT
