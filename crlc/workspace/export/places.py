"""Where exports go: checked before the work, with every trouble of the system in words."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, TypeVar

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, UsageError
from crlc.files import write_new_file
from crlc.names import printable

_Written = TypeVar("_Written")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def require_new_file(file: Path) -> None:
    """Refuse a name that is taken, or in a folder that is not there.

    Raises:
        UsageError: it cannot be written to, and why.
    """
    if os.path.lexists(file):
        raise UsageError(f"{_shown(file)} exists already. Choose another name, or delete it first.")
    if not file.parent.is_dir():
        raise UsageError(f"{_shown(file)} cannot be written: there is no folder {_shown(file.parent)}. Make it first.")


def require_new_folder(folder: Path, dataset: ImageDataset) -> None:
    """Refuse a folder that holds something, or that lies among the originals.

    Raises:
        UsageError: it cannot be filled, and why.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{_shown(folder)} exists already and is no folder. Choose another name.")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{_shown(folder)} is not empty. Choose another folder, or empty it first.")
    except OSError as error:
        raise UsageError(f"{_shown(folder)} cannot be opened: {error.strerror}. Choose another folder.") from None
    if not folder.parent.is_dir():
        raise UsageError(f"{_shown(folder)} cannot be made: there is no folder {_shown(folder.parent)}. Make it first.")
    if dataset.info.source_kind == "folder" and _is_below(folder, dataset.info.location):
        raise UsageError(
            f"{_shown(folder)} lies among the originals of {dataset.name}, where the next import would find what is "
            "put there. Choose a folder elsewhere."
        )


@contextmanager
def trouble_explained(place: Path) -> Iterator[None]:
    """Turn what the system says while an export is written into one clear error; nothing of it is left."""
    try:
        yield
    except FileExistsError:  # since it was looked at; the error may name a file of ours
        raise UsageError(f"{_shown(place)} exists already. Choose another name, or delete it first.") from None
    except OSError as error:
        reason = "the disk is full" if error.errno in _FULL else error.strerror or str(error)
        raise CrlcError(f"{_shown(place)} cannot be written: {reason}. Choose another place.") from None


def write_new_text(file: Path, write: Callable[[TextIO], _Written]) -> _Written:
    """Let `write` fill a text file, which is there whole or not at all; returns what it does.

    Raises:
        UsageError: there is something of that name, or no folder for it.
        CrlcError: it cannot be written.
    """
    require_new_file(file)
    written: list[_Written] = []

    def fill(stream: IO[bytes]) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        written.append(write(text))
        text.detach()  # flushed, and left open for whoever opened it

    with trouble_explained(file):
        write_new_file(file, fill)
    return written[0]


def _is_below(folder: Path, location: str) -> bool:
    inner, outer = os.path.realpath(folder), os.path.realpath(location)
    try:
        return os.path.commonpath((inner, outer)) == outer
    except ValueError:  # on another drive
        return False


def _shown(path: Path | str) -> str:
    return printable(str(path))
