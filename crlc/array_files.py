"""Reading of .npy and .npz files that may be damaged: every damage is a `ValueError`, whatever NumPy raises for it.

The header of a .npy file is a Python literal. NumPy raises TokenError, SyntaxError, TypeError, RecursionError,
MemoryError and others for damaged ones, and allocates as much memory as a header promises.
"""

from __future__ import annotations

import errno
import math
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_REASON_LENGTH = 160
_READ_ERRORS = (
    ValueError,
    EOFError,
    TokenError,
    SyntaxError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    SystemError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # a kind of compression that Python does not know
    RuntimeError,  # an encrypted member of an archive
)
"""Errors of NumPy and zipfile for damaged files, other than MemoryError and OSError."""


class ArrayHeader(NamedTuple):
    """Header of a .npy file."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    header_bytes: int
    """Offset of the values in the file."""

    @property
    def value_bytes(self) -> int:
        """Length of the values in bytes."""
        return math.prod(self.shape) * (0 if self.dtype.hasobject else self.dtype.itemsize)


def read_array_header(stream: IO[bytes]) -> ArrayHeader:
    """Read the header of a .npy file at the start of a stream.

    Raises:
        ValueError: it is damaged, or the file is none.
        OSError: the stream cannot be read.
    """
    from numpy.lib import format as npy_format

    try:
        with _explain_damage():
            version = npy_format.read_magic(stream)
            reader = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, is_fortran, dtype = reader(stream)
    except MemoryError:  # raised by Python's parser for deep nesting
        raise ValueError("the header is not valid") from None
    if min(shape, default=0) < 0:
        raise ValueError(f"it has the shape {shape}, but no length can be negative")
    return ArrayHeader(shape, is_fortran, dtype, stream.tell())


def load_array(file: Path, *, is_mapped: bool = False) -> NDArray[Any]:
    """Read a .npy file of plain values; no code from it is executed.

    Args:
        file: the file.
        is_mapped: return a read-only memory map.

    Raises:
        ValueError: the file is damaged, or its length is not what its header states.
        OSError: it is missing or cannot be read.
    """
    import numpy as np

    with file.open("rb") as stream:
        header = read_array_header(stream)
        found = os.fstat(stream.fileno()).st_size
    needed = header.header_bytes + header.value_bytes
    if needed != found and not header.dtype.hasobject:  # before as much memory is allocated
        raise ValueError(f"it has {found:,} bytes, but its shape {header.shape} needs {needed:,}")
    with _explain_damage():
        loaded: NDArray[Any] = np.load(file, mmap_mode="r" if is_mapped else None, allow_pickle=False)
    return loaded


def load_array_from_stream(stream: IO[bytes]) -> NDArray[Any]:
    """Read a .npy file of plain values from a stream, such as a member of an archive.

    The caller has compared the header with the size: a header may promise any number of values.

    Raises:
        ValueError: it is damaged.
        OSError: it cannot be read.
    """
    import numpy as np

    with _explain_damage():
        loaded: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return loaded


class ArrayArchive:
    """Arrays of an .npz file by name, which are read when they are needed."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        """Store an open archive; see `open_array_archive`."""
        self._archive = archive
        self._members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._members)

    def read(self, name: str) -> NDArray[Any]:
        """Read one array.

        Raises:
            ValueError: it is missing or damaged.
            OSError: the file cannot be read.
        """
        if name not in self._members:
            raise ValueError(f"it has no array {name}")
        with _explain_damage():
            member = self._archive.getinfo(self._members[name])
            with self._archive.open(member) as stream:
                header = read_array_header(stream)
            if header.header_bytes + header.value_bytes > member.file_size:
                raise ValueError(f"{name} has {member.file_size:,} bytes, fewer than its shape {header.shape} needs")
            with self._archive.open(member) as stream:
                return load_array_from_stream(stream)


@contextmanager
def open_array_archive(file: Path) -> Iterator[ArrayArchive]:
    """Open an .npz file; no code from it is executed.

    Raises:
        ValueError: the file is no archive, or damaged.
        OSError: it is missing or cannot be read.
    """
    with _explain_damage():
        archive = zipfile.ZipFile(file)
    with archive:
        yield ArrayArchive(archive)


def list_texts(array: NDArray[Any]) -> list[str]:
    """Return the values of an array as text; bytes are read as UTF-8.

    Raises:
        ValueError: a text has a character that does not exist.
    """
    import numpy as np

    values = np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array
    with _explain_damage():  # SystemError for a number above the last character of Unicode
        return [str(value) for value in values.ravel().tolist()]


@contextmanager
def _explain_damage() -> Iterator[None]:
    """Convert every error of a damaged file to `ValueError`, in one line. A `MemoryError` stays what it is."""
    try:
        yield
    except _READ_ERRORS as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:_MAX_REASON_LENGTH]
        raise ValueError(reason) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # an offset before the start of the file
            raise
        raise ValueError("an offset in it is wrong") from None
