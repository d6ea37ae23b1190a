"""Columns of a manifest as arrays. SQLite concatenates the values of many rows, which is faster than reading tuples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import DoubleArray, ImageIds, IntArray
from crlc.data.manifest import Manifest
from crlc.data.manifest_rows import DAMAGED_ADVICE
from crlc.errors import DamagedError

_BLOCK_IDS = 1 << 16
"""Number of ids per query: SQLite limits a text to 10^9 bytes."""


class TextColumn(NamedTuple):
    """A column of texts, concatenated as bytes."""

    content: bytes
    lengths: IntArray
    """Length of each text in bytes, -1 for NULL."""

    @property
    def offsets(self) -> IntArray:
        """Start offset of each text, followed by the end of the last one, (N + 1,)."""
        return np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))]).astype(np.int64)


class ImageColumns(NamedTuple):
    """Columns of all readable images of a dataset, (N,) each, in an unspecified order."""

    ids: ImageIds
    content_versions: IntArray
    paths: TextColumn
    """Encoded by `crlc.paths.encode_path`."""

    classes: TextColumn


def read_image_columns(manifest: Manifest) -> ImageColumns:
    """Read the columns of all readable images from one snapshot of the manifest."""
    texts = [part for name in ("path", "class") for part in (_join_text(name), _join_lengths(name))]
    expressions = [_join_numbers("id"), _join_numbers("content_version"), *texts]
    ids, versions, paths, path_lengths, classes, class_lengths = _read_columns(manifest, expressions)
    found = ImageColumns(
        _parse_numbers(manifest, ids),
        _parse_numbers(manifest, versions),
        TextColumn(b"".join(filter(None, paths)), _parse_numbers(manifest, path_lengths)),
        TextColumn(b"".join(filter(None, classes)), _parse_numbers(manifest, class_lengths)),
    )
    _require_same_length(manifest, found.ids, found.content_versions, found.paths.lengths, found.classes.lengths)
    return found


def read_content_versions(manifest: Manifest) -> tuple[ImageIds, IntArray]:
    """Return the ids of the readable images, and the version in which the content of each was imported."""
    ids, versions = _read_columns(manifest, [_join_numbers("id"), _join_numbers("content_version")])
    found = _parse_numbers(manifest, ids), _parse_numbers(manifest, versions)
    _require_same_length(manifest, *found)
    return found


def read_numbers(
    manifest: Manifest, expression: str, table: str | None = None, ids: Sequence[int] | None = None
) -> tuple[ImageIds, DoubleArray]:
    """Return the ids of the readable images and the value of a numeric SQL expression for each, NaN for NULL.

    Args:
        manifest: the manifest.
        expression: a column of `images` or of the other table.
        table: another table by image id, or `None`.
        ids: some images to read; `None` for all.
    """
    there, values = _read_columns(manifest, [_join_numbers("images.id"), _join_floats(expression)], table, ids)
    found = _parse_numbers(manifest, there), _parse(manifest, values, np.float64)
    _require_same_length(manifest, *found)
    return found


def read_texts(
    manifest: Manifest, expression: str, table: str | None = None, ids: Sequence[int] | None = None
) -> tuple[ImageIds, TextColumn]:
    """Return the ids of the readable images and the value of an SQL expression for each, as text.

    Args:
        manifest: the manifest.
        expression: a column of `images` or of the other table.
        table: another table by image id, or `None`.
        ids: some images to read; `None` for all.
    """
    expressions = [_join_numbers("images.id"), _join_text(expression), _join_lengths(expression)]
    there, texts, lengths = _read_columns(manifest, expressions, table, ids)
    return _parse_numbers(manifest, there), TextColumn(b"".join(filter(None, texts)), _parse_numbers(manifest, lengths))


def _read_columns(
    manifest: Manifest, expressions: Sequence[str], table: str | None = None, ids: Sequence[int] | None = None
) -> tuple[tuple[Any, ...], ...]:
    """Return, for each SQL expression, its value in every block of the table that has readable images."""
    joined = "" if table is None else f" LEFT JOIN {table} ON {table}.id = images.id"
    query = f"SELECT {', '.join(expressions)} FROM images{joined} WHERE status = 'ok' AND images.id "
    if ids is None:
        rows = list(_read_blocks(manifest, query + "> ? AND images.id <= ?"))
    else:
        some = query + "IN (SELECT value FROM json_each(?))"
        found = manifest.connection.execute(some, (json.dumps(list(ids)),)).fetchone()
        rows = [] if found[0] is None else [found]
    return tuple(zip(*rows, strict=True)) or ((),) * len(expressions)


def _read_blocks(manifest: Manifest, query: str) -> Iterator[tuple[Any, ...]]:
    with manifest.snapshot():
        last = manifest.get_last_id()
        for start in range(0, last, _BLOCK_IDS):
            row = manifest.connection.execute(query, (start, start + _BLOCK_IDS)).fetchone()
            if row[0] is not None:
                yield row


def _join_numbers(column: str) -> str:
    return f"group_concat({column}, ' ')"


def _join_floats(column: str) -> str:
    return f"group_concat(coalesce({column}, 'nan'), ' ')"


def _join_text(column: str) -> str:
    # As bytes: a path may contain any byte, and decoding the whole text is unnecessary.
    return f"CAST(group_concat({column}, '') AS BLOB)"


def _join_lengths(column: str) -> str:
    return f"group_concat(coalesce(length(CAST({column} AS BLOB)), -1), ' ')"


def _parse_numbers(manifest: Manifest, parts: Sequence[str]) -> IntArray:
    return _parse(manifest, parts, np.int64)


def _parse(manifest: Manifest, parts: Sequence[str], dtype: type[np.number[Any]]) -> NDArray[Any]:
    """Return the numbers in texts of `group_concat`.

    Raises:
        DamagedError: a value is no number; SQLite stores values of any type in any column.
    """
    try:
        found = [np.fromstring(part, dtype, sep=" ") for part in parts]
    except (ValueError, TypeError):  # NumPy before 2.3 stops at text that is no number: see _require_same_length
        raise _make_damaged_error(manifest) from None
    return np.concatenate(found) if found else np.empty(0, dtype)


def _require_same_length(manifest: Manifest, ids: ImageIds, *columns: Sized) -> None:
    """Raise if a column does not have one value per image: `group_concat` leaves out NULL."""
    if any(len(column) != len(ids) for column in columns):
        raise _make_damaged_error(manifest)


def _make_damaged_error(manifest: Manifest) -> DamagedError:
    return DamagedError(f"{manifest.path} is damaged: a value is not a number.", advice=DAMAGED_ADVICE)
