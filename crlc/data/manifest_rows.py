"""Types of the values in rows of a manifest: SQLite stores values of any type in any column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from crlc.errors import DamagedError

DAMAGED_ADVICE = (
    "Restore it from a backup of the workspace. Without a backup, remove the dataset and import it again: its labels "
    "and runs are lost, the originals are untouched."
)

_COLUMN_TYPES: dict[str, tuple[type, ...]] = {
    "id": (int,),
    "path": (bytes,),
    "bytes": (int,),
    "width": (int, NoneType),
    "height": (int, NoneType),
    "hash": (bytes, NoneType),
    "status": (str,),
    "reason": (str, NoneType),
    "class": (str, NoneType),
    "split": (str, NoneType),
    "content_version": (int,),
    "count": (int,),
    "name": (str,),
    "kind": (str,),
}
"""Types that the values of each column may have; `count` is the number of rows."""


def check_rows(rows: Iterable[Sequence[Any]], columns: Sequence[str], file: Path) -> Iterator[Any]:
    """Yield rows whose values have the types of their columns.

    Args:
        rows: rows of a query.
        columns: names of their columns.
        file: the manifest, for the error.

    Raises:
        DamagedError: a value has another type.
    """
    known: set[tuple[type, ...]] = set()
    for row in rows:
        types = tuple(map(type, row))
        if types not in known:  # checked once per combination: a manifest may have millions of rows
            for name, value in zip(columns, row, strict=True):
                if not isinstance(value, _COLUMN_TYPES[name]):
                    raise make_damaged_error(file, name, value)
            known.add(types)
        yield row


def make_damaged_error(file: Path, column: str, value: object) -> DamagedError:
    """Return the error for a value that its column may not have."""
    return DamagedError(f"{file} is damaged: {column}={repr(value)[:60]} is not allowed.", advice=DAMAGED_ADVICE)
