"""Writing small files so that a crash never leaves half of one, and locks between processes."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from crlc.errors import BusyError, DamagedError

_REPLACE_ATTEMPTS = 20
_REPLACE_PAUSE_SECONDS = 0.05


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file under a temporary name, flush it to the disk, rename it into place."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1, ensure_ascii=True)
            stream.flush()
            os.fsync(stream.fileno())
        _replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(path.parent)


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file under a temporary name, flush it to the disk, rename it into place."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        _replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(path.parent)


def read_json(path: Path, kind: str, version: int, advice: str) -> dict[str, Any]:
    """Read a JSON file that `write_json` wrote with `"kind"` and `"version"` in it.

    Args:
        path: the file.
        kind: what it must say it is.
        version: the format that this program knows.
        advice: what to do when it cannot be read.

    Raises:
        DamagedError: not JSON, another kind of file, or a version this program does not know.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing. {advice}") from None
    except (ValueError, OSError) as error:
        raise DamagedError(f"{path} cannot be read ({error}). {advice}") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise DamagedError(f"{path} is not a {kind} file of CRLC Studio. {advice}")
    if content.get("version") != version:
        raise DamagedError(
            f"{path} has format version {content.get('version')!r}; this program knows {version}. "
            "Update CRLC Studio, or use the version that made it."
        )
    return content


@contextmanager
def writer_lock(path: Path, what: str) -> Iterator[None]:
    """Hold the only right to write `what`; the system lets go of it when a process dies.

    Raises:
        BusyError: another process holds it now.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BusyError(f"{what} is being written by another process. Wait for it to end, then try again.") from None
    try:
        yield
    finally:
        lock.release()


def _replace(temporary: str, path: Path) -> None:
    """Rename over the old file; on Windows a reader may hold it for a moment."""
    for attempt in range(_REPLACE_ATTEMPTS):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            if os.name != "nt" or attempt == _REPLACE_ATTEMPTS - 1:
                raise
            time.sleep(_REPLACE_PAUSE_SECONDS)


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut (POSIX only; Windows has no such call)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
