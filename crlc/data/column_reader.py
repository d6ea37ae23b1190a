"""Reader of the columns of a dataset. A column is read from SQLite as one array over all images.

Columns that the import of an earlier version did not read are absent until the next import.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from crlc.arrays import DoubleArray, ImageIds, IntArray
from crlc.data.columns import (
    BLURRED,
    BUILT_IN_INFOS,
    DARK,
    FILE_DATE,
    FILE_SIZE,
    FOLDER,
    GOOD,
    QUALITY,
    UNIFORM,
    Column,
    ColumnInfo,
    flag_quality,
)
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import TextColumn, read_numbers, read_texts
from crlc.data.manifest_rows import check_rows
from crlc.data.metadata_tables import LIST_TABLE, PHOTO_TABLE, has_table
from crlc.errors import NotFoundError
from crlc.paths import decode_path, to_printable

_FILE_KINDS = ("folder", "zip", "csv")
_SECONDS_PER_HOUR = 3600
_MAX_SINGLE_LOOKUPS = 1_000
"""Up to this number, images are looked up by their ids; beyond it, the whole column is read at once."""

_DRIVE = re.compile(rb"[A-Za-z]:/")
_ZIP_STAMP = re.compile(r"\((\d+), (\d+), (\d+), (\d+), (\d+), (\d+)\)")


def list_columns(dataset: ImageDataset) -> tuple[ColumnInfo, ...]:
    """Return the columns of a dataset that have a value for at least one image."""
    with Manifest(dataset.folder) as manifest:
        sql = manifest.connection
        has_photos = has_table(sql, PHOTO_TABLE)
        query = "SELECT 1 FROM images WHERE status = 'ok' AND width IS NOT 0 LIMIT 1"  # 0: placeholder
        has_files = sql.execute(query).fetchone() is not None
        found = []
        for info in BUILT_IN_INFOS:
            if info.origin in ("exif", "pixels"):
                field = "sharpness" if info.name == QUALITY else info.name
                query = (
                    f"SELECT 1 FROM {PHOTO_TABLE} JOIN images USING (id) "
                    f"WHERE {field} IS NOT NULL AND status = 'ok' LIMIT 1"
                )
                is_there = has_photos and sql.execute(query).fetchone() is not None
            elif info.name == FOLDER:
                query = "SELECT 1 FROM images WHERE status = 'ok' AND instr(path, x'2f') LIMIT 1"
                is_there = dataset.info.source_kind in _FILE_KINDS and sql.execute(query).fetchone() is not None
            else:
                is_stored = info.name in ("width", "height") or dataset.info.source_kind in _FILE_KINDS
                is_there = has_files and is_stored
            if is_there:
                found.append(info)
        if has_table(sql, "list_columns"):
            query = "SELECT name, kind FROM list_columns ORDER BY number"
            rows = check_rows(sql.execute(query), ("name", "kind"), manifest.path)
            found += [ColumnInfo(name, kind, "list", "", "Column of the imported list.") for name, kind in rows]
    return tuple(found)


def read_column(dataset: ImageDataset, name: str, ids: ImageIds | None = None) -> Column:
    """Read one column.

    Args:
        dataset: the dataset.
        name: name of the column.
        ids: images in the order of the values; by default all readable images, ascending.

    Raises:
        NotFoundError: the dataset has no such column.
    """
    infos = {info.name: info for info in list_columns(dataset)}
    if name not in infos:
        raise NotFoundError(
            f"{dataset.name} has no column {name!r}.", advice=f"Choose one of: {', '.join(infos) or 'none'}."
        )
    return read_columns(dataset, [infos[name]], ids)[0]


def read_columns(dataset: ImageDataset, infos: Iterable[ColumnInfo], ids: ImageIds | None = None) -> list[Column]:
    """Read columns that `list_columns` returned; `ids` are those of `read_column`."""
    few = None if ids is None or len(ids) > _MAX_SINGLE_LOOKUPS else ids.tolist()
    found = []
    with Manifest(dataset.folder) as manifest:
        for info in infos:
            there, column = _read(manifest, info, few)
            order = np.argsort(there, kind="stable")
            by_id = column.take(order)
            found.append(by_id if ids is None else by_id.look_up(there[order], ids))
    return found


def read_all_columns(dataset: ImageDataset, ids: ImageIds | None = None) -> list[Column]:
    """Read every column of a dataset; the arguments are those of `read_column`."""
    return read_columns(dataset, list_columns(dataset), ids)


def _read(manifest: Manifest, info: ColumnInfo, few: list[int] | None) -> tuple[ImageIds, Column]:
    """Return ids in an unspecified order, and the values in the same order."""
    if info.name == QUALITY and info.origin == "pixels":
        parts = [read_numbers(manifest, name, PHOTO_TABLE, few) for name in ("brightness", "contrast", "sharpness")]
        flags = flag_quality(*(values for _, values in parts))
        return parts[0][0], Column(info, flags, (BLURRED, DARK, GOOD, UNIFORM))
    if info.name == FOLDER and info.origin == "file":
        return _read_folders(manifest, info, few)
    if info.name == FILE_DATE and info.origin == "file":
        return _read_file_dates(manifest, info, few)
    expression, table = {"exif": (info.name, PHOTO_TABLE), "pixels": (info.name, PHOTO_TABLE)}.get(
        info.origin,
        (f"nullif({'bytes' if info.name == FILE_SIZE else info.name}, 0)", None),  # 0: placeholder
    )
    if info.origin == "list":
        query = "SELECT number FROM list_columns WHERE name = ?"
        expression, table = f"v{manifest.connection.execute(query, (info.name,)).fetchone()[0]}", LIST_TABLE
    if not info.is_coded:
        ids, values = read_numbers(manifest, expression, table, few)
        return ids, Column(info, values)
    ids, texts = read_texts(manifest, expression, table, few)
    codes, names = _encode(texts)
    return ids, Column(info, codes, tuple(name.decode("utf-8", "replace") for name in names))


def _encode(texts: TextColumn) -> tuple[IntArray, list[bytes]]:
    """Return the index of each text, -1 for NULL, and the distinct texts, sorted by their bytes."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.content)]
    array = pa.Array.from_buffers(pa.large_binary(), len(texts.lengths), buffers).dictionary_encode()
    missing = texts.lengths < 0
    indices = np.asarray(array.indices, np.int64)
    found = array.dictionary.to_pylist()
    used = np.unique(indices[~missing]).tolist()  # a missing text is stored as an empty one
    order = sorted(used, key=lambda index: found[index])
    ranks = np.full(len(found) + 1, -1, np.int64)
    ranks[order] = np.arange(len(order))
    return np.where(missing, -1, ranks[indices]), [found[index] for index in order]


def _read_folders(manifest: Manifest, info: ColumnInfo, few: list[int] | None) -> tuple[ImageIds, Column]:
    ids, paths = read_texts(manifest, "path", ids=few)
    codes, names = _encode(paths)
    folders = [name.rpartition(b"/")[0] for name in names]  # paths are distinct, but an array has none of bytes
    distinct = sorted(set(folders))
    rank = {folder: number for number, folder in enumerate(distinct)}
    by_path = np.array([rank[folder] for folder in folders], np.int64)
    root = _find_common_folder(manifest)
    texts = tuple(to_printable(decode_path(folder[len(root) :])) or "." for folder in distinct)
    return ids, Column(info, by_path[codes] if len(codes) else codes, texts)


def _find_common_folder(manifest: Manifest) -> bytes:
    """Return the folder of all absolute paths, which a list may have, with a slash; empty if there is no use for it."""
    # A damaged manifest may have a path as text.
    query = "SELECT CAST(MIN(path) AS BLOB), CAST(MAX(path) AS BLOB) FROM images WHERE status = 'ok'"
    first, last = (path or b"" for path in manifest.connection.execute(query).fetchone())
    folders = [path.rpartition(b"/")[0] or b"/" for path in (first, last)]
    if not (first.startswith(b"/") or _DRIVE.match(first)) or folders[0] == folders[1]:
        return b""
    return posixpath.commonpath(folders).rstrip(b"/") + b"/"


def _read_file_dates(manifest: Manifest, info: ColumnInfo, few: list[int] | None) -> tuple[ImageIds, Column]:
    """Read the modification time from the stamp: nanoseconds of a file, or the tuple that a zip archive stores."""
    expression = "iif(stamp GLOB '[0-9]*:*', CAST(stamp AS INTEGER) / 1e9, NULL)"
    ids, seconds = read_numbers(manifest, expression, ids=few)
    if np.isnan(seconds).any():
        text_ids, stamps = read_texts(manifest, "stamp", ids=few)
        assert np.array_equal(ids, text_ids)
        bounds = stamps.offsets.tolist()
        texts = (stamps.content[start:end].decode() for start, end in pairwise(bounds))
        dates = np.fromiter(map(_parse_zip_stamp, texts), np.float64, len(ids))
        return ids, Column(info, np.where(np.isnan(seconds), dates, _to_local_clock(seconds)))
    return ids, Column(info, _to_local_clock(seconds))


def _parse_zip_stamp(stamp: str) -> float:
    found = _ZIP_STAMP.match(stamp)
    try:
        return datetime(*map(int, found.groups()), tzinfo=UTC).timestamp() if found else np.nan  # type: ignore[misc, arg-type]
    except ValueError:  # archives may store a month 0
        return np.nan


def _to_local_clock(seconds: DoubleArray) -> DoubleArray:
    """Return times as they stand on a clock of this computer's time zone; one look-up per distinct hour."""
    known = np.isfinite(seconds)
    hours, index = np.unique(seconds[known] // _SECONDS_PER_HOUR, return_inverse=True)
    offsets = [_find_utc_offset(hour * _SECONDS_PER_HOUR) for hour in hours.tolist()]
    local = seconds.copy()
    local[known] = np.floor(seconds[known]) + np.array(offsets, np.float64)[index]
    return local


def _find_utc_offset(seconds: float) -> float:
    try:
        offset = datetime.fromtimestamp(seconds, UTC).astimezone().utcoffset()
    except (OverflowError, ValueError, OSError):  # outside the years that the system knows
        return 0.0
    return 0.0 if offset is None else offset.total_seconds()
