"""Finding out what a path or a name is."""

from __future__ import annotations

import difflib
import zipfile
from pathlib import Path

from crlc.data.sources.archive import ZipSource
from crlc.data.sources.arrays import open_npz
from crlc.data.sources.base import Source
from crlc.data.sources.builtin import BUILTIN_SETS, open_builtin
from crlc.data.sources.folder import FolderSource
from crlc.data.sources.table import CsvSource
from crlc.errors import SourceError
from crlc.names import printable

_WHAT_WE_TAKE = "a folder, a .zip, an .npz, a .csv of paths, or one of " + ", ".join(BUILTIN_SETS)


def open_source(given: str, downloads: Path) -> Source:
    """Find out what `given` is and open it.

    Args:
        given: a path, or the name of a built-in data set.
        downloads: where built-in data sets are kept.

    Raises:
        SourceError: there is nothing of that name, or it is nothing images come from.
    """
    if given in BUILTIN_SETS:
        return open_builtin(given, downloads)
    try:
        return _open_path(given)
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a name too long, a NUL in it
        raise SourceError(f"{printable(given)[:200]} cannot be opened: {error}. Give {_WHAT_WE_TAKE}.") from None


def _open_path(given: str) -> Source:
    path = Path(given).expanduser()
    if path.is_dir():
        return FolderSource(str(path.resolve()))
    if path.is_file():
        return _open_file(path.resolve())
    if path.exists():
        raise SourceError(f"{given} is neither a folder nor a file. Give {_WHAT_WE_TAKE}.")
    near = difflib.get_close_matches(given, BUILTIN_SETS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise SourceError(f"{given} does not exist.{hint} Give {_WHAT_WE_TAKE}.")


def _open_file(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return open_npz(str(path))
    if suffix == ".zip" or zipfile.is_zipfile(path):
        return ZipSource(str(path))
    if suffix in (".csv", ".tsv"):
        return CsvSource(str(path))
    raise SourceError(f"{path} is a single file that images cannot be taken from. Give {_WHAT_WE_TAKE}.")
