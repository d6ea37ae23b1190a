"""Opening of a source by its path or name."""

from __future__ import annotations

import difflib
import zipfile
from pathlib import Path

from crlc.data.sources.archive import ZipSource
from crlc.data.sources.arrays import open_npz
from crlc.data.sources.base import Source
from crlc.data.sources.builtin import BUILTIN_DATASETS, open_builtin
from crlc.data.sources.folder import FolderSource
from crlc.data.sources.table import CsvSource
from crlc.errors import SourceError
from crlc.paths import to_printable

_ADVICE = f"Give a folder, a .zip, an .npz, a .csv or .parquet of paths, or one of {', '.join(BUILTIN_DATASETS)}."


def open_source(given: str, downloads: Path) -> Source:
    """Open the source of a path or name.

    Args:
        given: a path, or the name of a built-in dataset.
        downloads: folder of the downloaded built-in datasets.

    Raises:
        SourceError: the path does not exist, or is not a source of images.
    """
    if given in BUILTIN_DATASETS:
        return open_builtin(given, downloads)
    try:
        return _open_path(given)
    except (OSError, RuntimeError, ValueError) as error:  # an unknown user, a name that is too long or contains NUL
        raise SourceError(f"{to_printable(given)[:200]} cannot be opened: {error}.", advice=_ADVICE) from None


def _open_path(given: str) -> Source:
    path = Path(given).expanduser()
    if path.is_dir():
        return FolderSource(str(path.resolve()))
    if path.is_file():
        return _open_file(path.resolve())
    if path.exists():
        raise SourceError(f"{given} is neither a folder nor a file.", advice=_ADVICE)
    near = difflib.get_close_matches(given, BUILTIN_DATASETS, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SourceError(f"{given} does not exist.", advice=hint + _ADVICE)


def _open_file(path: Path) -> Source:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return open_npz(str(path))
    if suffix == ".zip" or zipfile.is_zipfile(path):
        return ZipSource(str(path))
    if suffix in (".csv", ".tsv", ".parquet"):
        return CsvSource(str(path))
    raise SourceError(f"{path} is a single file of an unsupported kind.", advice=_ADVICE)
