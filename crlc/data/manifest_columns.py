"""Whole columns of a manifest. SQLite joins the values of many rows: making Python objects of each takes longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.data.manifest import Manifest

_IDS_AT_ONCE = 1 << 16
"""SQLite's texts have a limit of a thousand million bytes."""
Numbers = NDArray[np.int64]


class TextColumn(NamedTuple):
    """Texts one after the other, as bytes."""

    content: bytes
    lengths: Numbers
    """In bytes, of each; -1 where there is none."""

    @property
    def offsets(self) -> Numbers:
        """Where each begins, and where the last one ends, (N + 1,)."""
        return np.concatenate([[0], np.cumsum(np.maximum(self.lengths, 0))]).astype(np.int64)


class ReadableImages(NamedTuple):
    """The readable images of a data set, in no order that could be counted on; (N,) each."""

    ids: Numbers
    content_versions: Numbers
    paths: TextColumn
    """As they are stored; `crlc.names.path_from_bytes` makes text of them."""

    classes: TextColumn


def readable_images(manifest: Manifest) -> ReadableImages:
    """All of them, of one state."""
    texts = [part for name in ("path", "class") for part in (_joined_text(name), _joined_lengths(name))]
    expressions = [_joined_numbers("id"), _joined_numbers("content_version"), *texts]
    ids, versions, paths, path_lengths, classes, class_lengths = _columns(manifest, expressions)
    return ReadableImages(
        _numbers(ids),
        _numbers(versions),
        TextColumn(b"".join(filter(None, paths)), _numbers(path_lengths)),
        TextColumn(b"".join(filter(None, classes)), _numbers(class_lengths)),
    )


def content_versions(manifest: Manifest) -> tuple[Numbers, Numbers]:
    """The ids of the readable images, and the version in which the content of each arrived."""
    ids, versions = _columns(manifest, [_joined_numbers("id"), _joined_numbers("content_version")])
    return _numbers(ids), _numbers(versions)


def _columns(manifest: Manifest, expressions: Sequence[str]) -> tuple[tuple[Any, ...], ...]:
    """For each expression what it came to in every part of the table that has readable images."""
    rows = list(
        _parts(manifest, f"SELECT {', '.join(expressions)} FROM images WHERE id > ? AND id <= ? AND status = 'ok'")
    )
    return tuple(zip(*rows, strict=True)) or ((),) * len(expressions)


def _parts(manifest: Manifest, query: str) -> Iterator[tuple[Any, ...]]:
    with manifest.one_state():
        last = manifest.last_id()
        for start in range(0, last, _IDS_AT_ONCE):
            row = manifest.connection.execute(query, (start, start + _IDS_AT_ONCE)).fetchone()
            if row[0] is not None:
                yield row


def _joined_numbers(column: str) -> str:
    return f"group_concat({column}, ' ')"


def _joined_text(column: str) -> str:
    # As bytes: a path may hold any, and decoding a large text is work that nobody needs.
    return f"CAST(group_concat({column}, '') AS BLOB)"


def _joined_lengths(column: str) -> str:
    return f"group_concat(coalesce(length(CAST({column} AS BLOB)), -1), ' ')"


def _numbers(parts: Sequence[str]) -> Numbers:
    found = [np.fromstring(part, np.int64, sep=" ") for part in parts]
    return np.concatenate(found) if found else np.empty(0, np.int64)
