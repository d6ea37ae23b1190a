"""Export destinations: checks before writing, safe file names, and clear errors when writing fails."""

from __future__ import annotations

import errno
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, TypeVar

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, UsageError
from crlc.files import write_new_file
from crlc.paths import to_printable

_Written = TypeVar("_Written")
_CHOOSE_ANOTHER, _CREATE_FOLDER = "Choose another name, or delete it first.", "Create the folder first."
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN_CHARACTERS = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]')
_RESERVED_NAMES = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)
_MAX_NAME_BYTES = 150
"""File systems allow 255 bytes; the rest is for a number that `add_number` may insert."""


def require_new_file(file: Path) -> None:
    """Check that a file does not exist and that its folder exists.

    Raises:
        UsageError: the file cannot be created.
    """
    if os.path.lexists(file):
        raise UsageError(f"{_to_text(file)} exists already.", advice=_CHOOSE_ANOTHER)
    if not file.parent.is_dir():
        raise UsageError(
            f"{_to_text(file)} cannot be written: there is no folder {_to_text(file.parent)}.", advice=_CREATE_FOLDER
        )


def require_new_folder(folder: Path, dataset: ImageDataset) -> None:
    """Check that a folder does not exist or is empty, and that it is not inside the folder of the original images.

    Args:
        folder: path of the new folder.
        dataset: dataset with the original images.

    Raises:
        UsageError: the folder cannot be used.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{_to_text(folder)} exists already and is not a folder.", advice=_CHOOSE_ANOTHER)
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{_to_text(folder)} is not empty.", advice="Choose another folder, or empty it first.")
    except OSError as error:
        raise UsageError(
            f"{_to_text(folder)} cannot be opened: {error.strerror}.", advice="Choose another folder."
        ) from None
    if not folder.parent.is_dir():
        raise UsageError(
            f"{_to_text(folder)} cannot be created: there is no folder {_to_text(folder.parent)}.",
            advice=_CREATE_FOLDER,
        )
    if dataset.info.source_kind == "folder" and _is_below(folder, dataset.info.location):
        raise UsageError(
            f"{_to_text(folder)} is inside the original images of {dataset.name}: the next import would find the "
            "exported images.",
            advice="Choose a folder elsewhere.",
        )


@contextmanager
def explain_write_errors(destination: Path) -> Iterator[None]:
    """Translate operating-system errors during an export into one clear error.

    Raises:
        UsageError: another process has created the destination since it was checked.
        CrlcError: the destination cannot be written, with the reason.
    """
    try:
        yield
    except FileExistsError:  # its path may be that of a temporary file, so the message names the destination
        raise UsageError(f"{_to_text(destination)} exists already.", advice=_CHOOSE_ANOTHER) from None
    except OSError as error:
        reason = "the disk is full" if error.errno in _DISK_FULL else error.strerror or str(error)
        raise CrlcError(
            f"{_to_text(destination)} cannot be written: {reason}.", advice="Choose another path."
        ) from None


def write_new_text(file: Path, write: Callable[[TextIO], _Written]) -> _Written:
    """Write a new UTF-8 text file. After an error, no file is left behind.

    Args:
        file: path of the new file.
        write: writes the content to a stream; its return value is returned.

    Raises:
        UsageError: the file exists, or its folder does not.
        CrlcError: the file cannot be written.
    """
    require_new_file(file)
    written: list[_Written] = []

    def fill(stream: IO[bytes]) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        written.append(write(text))
        text.detach()  # flushes, and leaves the stream open for its owner

    with explain_write_errors(file):
        write_new_file(file, fill)
    return written[0]


def make_safe_file_name(name: str) -> str:
    """Return a similar file name that Windows, macOS and Linux allow; never empty, hidden or a path.

    Two different names may result in the same file name.
    """
    allowed = _FORBIDDEN_CHARACTERS.sub("_", unicodedata.normalize("NFC", name))
    stem, dot, suffix = allowed.rpartition(".")
    if not stem or len(suffix.encode()) > _MAX_NAME_BYTES // 4:
        stem, dot, suffix = allowed, "", ""
    stem_bytes = _MAX_NAME_BYTES - len((dot + suffix).encode())
    shortened = stem.encode()[:stem_bytes].decode(errors="ignore") + dot + suffix
    safe = shortened.strip(" ").rstrip(" .")
    if not safe or safe.startswith(".") or _RESERVED_NAMES.match(safe):
        safe = "_" + safe.lstrip(".")
    return safe


def add_number(name: str, number: int) -> str:
    """Insert a number before the suffix: `a.png` with 2 is `a-2.png`."""
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{number}{dot}{suffix}" if stem else f"{name}-{number}"


def _is_below(folder: Path, location: str) -> bool:
    inner, outer = os.path.realpath(folder), os.path.realpath(location)
    try:
        return os.path.commonpath((inner, outer)) == outer
    except ValueError:  # on another drive
        return False


def _to_text(path: Path | str) -> str:
    return to_printable(str(path))
