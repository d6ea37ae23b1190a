"""Atomic writing of files, arrays that are written row by row, locks between processes, and the cache folder."""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import platformdirs
from filelock import FileLock, Timeout

from crlc.array_files import load_array, read_array_header
from crlc.errors import AccessError, BusyError, DamagedError, FormatVersionError, explain_system_error
from crlc.json_schema import check_entries
from crlc.paths import refuse_special_file

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

NEWER_VERSION_ADVICE = "Update CRLC Studio, or use the version that wrote it."
_REPLACE_ATTEMPTS = 20
_REPLACE_PAUSE_SECONDS = 0.05


def get_cache_folder() -> Path:
    """Return the folder for files that can be made again: that in CRLC_CACHE, or else in the user's cache directory."""
    given = os.environ.get("CRLC_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("crlc-studio", appauthor=False))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically: a crash leaves either the old or the new file."""
    text = json.dumps(content, indent=1, ensure_ascii=True).encode()
    write_file(path, lambda stream: stream.write(text))


def write_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically: write to a temporary name, flush to disk, then rename.

    Args:
        path: the file.
        write: writes the content to the stream that it receives.
    """
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
    _sync_folder(path.parent)


def write_new_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file for the user atomically, with default permissions, and never replace an existing file.

    Args:
        path: the file.
        write: writes the content to the stream that it receives.

    Raises:
        FileExistsError: a file of that name exists, even if it was created during the call.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = path.parent / f".crlc-{uuid.uuid4().hex}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        _link_new(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def replace_file(temporary: Path, path: Path) -> None:
    """Rename a complete and flushed file; the new name survives a power failure."""
    _replace(str(temporary), path)
    _sync_folder(path.parent)


def read_json(path: Path, kind: str, version: int, advice: str, schema: type) -> dict[str, Any]:
    """Read a JSON file that `write_json` wrote and that contains the keys `"kind"` and `"version"`.

    Args:
        path: the file.
        kind: the expected kind.
        version: the expected version of the format.
        advice: what the user can do when the file cannot be read.
        schema: dataclass or `TypedDict` with the types of the entries (see `crlc.json_schema`).

    Raises:
        DamagedError: the file is missing, not JSON, of another kind or version, or an entry is missing or wrong.
        AccessError: the user has no permission to read the file.
        UnavailableError: its disk does not answer.
    """
    try:
        refuse_special_file(path)
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.", advice=advice) from None
    except PermissionError:
        raise AccessError.for_path(path, "read") from None
    except (ValueError, OSError, RecursionError) as error:  # RecursionError: nested too deeply
        damaged = DamagedError(f"{path} cannot be read ({error}).", advice=advice)
        raise explain_system_error(error, path) or damaged from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise DamagedError(f"{path} is not a {kind} file of CRLC Studio.", advice=advice)
    if content.get("version") != version:
        raise FormatVersionError(
            f"{path} has format version {content.get('version')!r}; this program reads version {version}.",
            advice=NEWER_VERSION_ADVICE,
        )
    try:
        check_entries(content, schema)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: it {error}.", advice=advice) from None
    return content


def read_json_to_update(path: Path, kind: str, version: int, advice: str, schema: type) -> dict[str, Any] | None:
    """Read a JSON file that the caller writes anew afterwards; `None` if it is missing or damaged.

    A file that is only unreadable now, or that a newer version wrote, would be lost: it is an error.

    Args:
        path: the file.
        kind: the expected kind.
        version: the expected version of the format.
        advice: what the user can do when the file cannot be read.
        schema: dataclass or `TypedDict` with the types of the entries.

    Raises:
        FormatVersionError: the file has another version.
        AccessError: the user has no permission to read the file.
        UnavailableError: its disk does not answer.
    """
    try:
        return read_json(path, kind, version, advice, schema)
    except FormatVersionError:
        raise
    except DamagedError:
        return None


@contextmanager
def explain_read_errors(path: Path, advice: str) -> Iterator[None]:
    """Convert the errors of the system on reading a workspace file, such as a folder in its place, to `CrlcError`.

    Args:
        path: the file.
        advice: what the user can do when the file is damaged.

    Raises:
        DamagedError: the file cannot be read.
        AccessError: the user has no permission to read the file.
    """
    try:
        yield
    except PermissionError:
        raise AccessError.for_path(path, "read") from None
    except OSError as error:
        damaged = DamagedError(f"{path} cannot be read ({error.strerror or error}).", advice=advice)
        raise explain_system_error(error, path) or damaged from None


def load_required_array(path: Path, advice: str, *, is_mapped: bool = False) -> NDArray[Any]:
    """Read a .npy file of a workspace.

    Args:
        path: the file.
        advice: what the user can do when the file is missing or damaged.
        is_mapped: return a read-only memory map.

    Raises:
        DamagedError: the file is missing or damaged.
        AccessError: the user has no permission to read the file.
    """
    try:
        refuse_special_file(path)
        return load_array(path, is_mapped=is_mapped)
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.", advice=advice) from None
    except PermissionError:
        raise AccessError.for_path(path, "read") from None
    except (OSError, ValueError) as error:
        damaged = DamagedError(f"{path} cannot be read ({error}).", advice=advice)
        raise explain_system_error(error, path) or damaged from None


class ArrayFile:
    """A .npy file that is written row by row, without a memory map: on a full disk, a memory map kills the process."""

    def __init__(self, path: Path) -> None:
        """Open a file that `create` made. Several processes may write different rows at the same time."""
        self.path = path
        with path.open("rb") as stream:
            header = read_array_header(stream)
        self._header_bytes, self._dtype = header.header_bytes, header.dtype
        self._row_bytes = header.dtype.itemsize * math.prod(header.shape[1:])
        self._stream = path.open("r+b")

    @staticmethod
    def create(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Create the file with its header; rows that are never written are zeros."""
        import numpy as np

        kind = np.dtype(dtype)
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        with path.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            stream.truncate(stream.tell() + kind.itemsize * int(np.prod(shape, dtype=np.int64)))

    def write(self, row: int, values: NDArray[Any]) -> None:
        """Write consecutive rows.

        Args:
            row: index of the first row.
            values: the rows, (n, ...); converted to the type of the file.
        """
        self._stream.seek(self._header_bytes + row * self._row_bytes)
        self._stream.write(values.astype(self._dtype, copy=False).tobytes())

    def close(self) -> None:
        """Flush the file to the disk and close it."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()


@contextmanager
def writer_lock(
    path: Path, what: str, timeout_seconds: float = 0.0, *, wait: Callable[[], object] | None = None
) -> Iterator[None]:
    """Hold an exclusive lock between processes; the system releases it when the process ends.

    Args:
        path: the lock file.
        what: name of the locked file or folder in the error message.
        timeout_seconds: how long to wait for another process to release the lock.
        wait: called each time that this has passed: the lock is then tried again, until it is free or `wait` raises.

    Raises:
        BusyError: another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=timeout_seconds)
        except Timeout:
            if wait is None:
                raise BusyError(
                    f"{what} is being written by another process.", advice="Wait for it to finish, then try again."
                ) from None
            wait()
    try:
        yield
    finally:
        lock.release()


def _replace(temporary: str, path: Path) -> None:
    """Rename over the old file. On Windows this fails while another process reads the old file, so retry."""
    for attempt in range(_REPLACE_ATTEMPTS):
        try:
            os.replace(temporary, path)
            return
        except IsADirectoryError:
            raise DamagedError(f"{path} is a folder, but must be a file.", advice="Move the folder away.") from None
        except PermissionError:
            if os.name != "nt" or attempt == _REPLACE_ATTEMPTS - 1:
                raise
            time.sleep(_REPLACE_PAUSE_SECONDS)


def _link_new(temporary: Path, path: Path) -> None:
    """Move a complete file to a new name that must not exist yet; a rename would silently replace another file."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: check, then rename; the race cannot be avoided
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        _replace(str(temporary), path)
    else:
        os.unlink(temporary)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure (POSIX only; Windows has no such call)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
