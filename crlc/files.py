"""Writing small files so that a crash never leaves half of one, arrays row by row, and locks between processes."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from crlc.errors import BusyError, DamagedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

_REPLACE_ATTEMPTS = 20
_REPLACE_PAUSE_SECONDS = 0.05


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file under a temporary name, flush it to the disk, rename it into place."""
    text = json.dumps(content, indent=1, ensure_ascii=True).encode()
    write_file(path, lambda stream: stream.write(text))


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


def write_new_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """As `write_file`, for a file of the user's own: with their usual rights, and never over another.

    Raises:
        FileExistsError: there is something of that name, perhaps since a moment ago.
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
    _flush_folder(path.parent)


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a complete and flushed file to its name, so that it stays there after a power cut."""
    _replace(str(temporary), path)
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


class ArrayFile:
    """A .npy file filled with rows by plain writes: on a full disk a write through a memory map kills the process."""

    def __init__(self, path: Path) -> None:
        """Open a file that `create` made; several processes may, for rows of their own."""
        import numpy as np

        self.path = path
        with path.open("rb") as stream:
            np.lib.format.read_magic(stream)
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            self._begin = stream.tell()
        self._dtype: np.dtype[Any] = dtype
        self._row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._stream = path.open("r+b")

    @staticmethod
    def create(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Make the file with its header; rows not written later are zeros."""
        import numpy as np

        kind = np.dtype(dtype)
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        with path.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            stream.truncate(stream.tell() + kind.itemsize * int(np.prod(shape, dtype=np.int64)))

    def write(self, row: int, values: NDArray[Any]) -> None:
        """Put rows in their place, converted to the file's type."""
        self._stream.seek(self._begin + row * self._row_bytes)
        self._stream.write(values.astype(self._dtype, copy=False).tobytes())

    def close(self) -> None:
        """Flush to the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()


@contextmanager
def writer_lock(path: Path, what: str, patience: float = 0.0) -> Iterator[None]:
    """Hold the only right to write `what`; the system lets go of it when a process dies.

    Args:
        path: the lock's own file.
        what: as people would call it.
        patience: seconds to wait for another process to let go.

    Raises:
        BusyError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=patience)
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


def _link_new(temporary: Path, path: Path) -> None:
    """Give a complete file its name, unless that is taken; a rename would not ask."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the best that is left
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        _replace(str(temporary), path)
    else:
        os.unlink(temporary)


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut (POSIX only; Windows has no such call)."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
