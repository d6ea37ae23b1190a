"""Columns of a manifest as arrays. SQLite concatenates the values of many rows, which is faster than reading tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from crlc.arrays import ImageIds, IntArray
from crlc.data.manifest import Manifest

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
    return ImageColumns(
        _parse_numbers(ids),
        _parse_numbers(versions),
        TextColumn(b"".join(filter(None, paths)), _parse_numbers(path_lengths)),
        TextColumn(b"".join(filter(None, classes)), _parse_numbers(class_lengths)),
    )


def read_content_versions(manifest: Manifest) -> tuple[ImageIds, IntArray]:
    """Return the ids of the readable images, and the version in which the content of each was imported."""
    ids, versions = _read_columns(manifest, [_join_numbers("id"), _join_numbers("content_version")])
    return _parse_numbers(ids), _parse_numbers(versions)


def _read_columns(manifest: Manifest, expressions: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """Return, for each SQL expression, its value in every block of the table that has readable images."""
    rows = list(
        _read_blocks(
            manifest, f"SELECT {', '.join(expressions)} FROM images WHERE id > ? AND id <= ? AND status = 'ok'"
        )
    )
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


def _join_text(column: str) -> str:
    # As bytes: a path may contain any byte, and decoding the whole text is unnecessary.
    return f"CAST(group_concat({column}, '') AS BLOB)"


def _join_lengths(column: str) -> str:
    return f"group_concat(coalesce(length(CAST({column} AS BLOB)), -1), ' ')"


def _parse_numbers(parts: Sequence[str]) -> IntArray:
    found = [np.fromstring(part, np.int64, sep=" ") for part in parts]
    return np.concatenate(found) if found else np.empty(0, np.int64)
