"""Tables of the manifest with further values of images: from the photographs, their pixels, and a CSV list.

Manifests of earlier versions lack the tables until the next import, and programs of earlier versions ignore them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from sqlite3 import Connection

from crlc.data.decode_worker import DecodeResult, MetadataResult
from crlc.data.list_columns import KINDS, ColumnGuess, parse_cell
from crlc.data.photo_metadata import PhotoMetadata
from crlc.data.pixel_statistics import PixelStatistics
from crlc.paths import decode_path

PHOTO_TABLE, LIST_TABLE = "photo_values", "list_values"
PHOTO_FIELDS = (*PhotoMetadata._fields, *PixelStatistics._fields)
_INSERTED_ROWS = 1000
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {PHOTO_TABLE} (
    id INTEGER PRIMARY KEY,  -- of the image; the row belongs to its current content
    taken REAL, camera TEXT, lens TEXT, latitude REAL, longitude REAL,
    brightness REAL, contrast REAL, sharpness REAL
);
CREATE TABLE IF NOT EXISTS list_columns (
    number INTEGER PRIMARY KEY,  -- `list_values` has the values in the column v<number>
    name TEXT NOT NULL,
    kind TEXT NOT NULL           -- number, date, category or text
);
"""


def create_metadata_tables(sql: Connection) -> None:
    """Create the tables that the manifest does not have yet."""
    sql.executescript(_SCHEMA)


def has_table(sql: Connection, name: str) -> bool:
    """Return whether the manifest has a table."""
    return sql.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is not None


# ---- photographs


def insert_photo_values(sql: Connection, results: Iterable[DecodeResult | MetadataResult]) -> None:
    """Store metadata and pixel statistics of decoded images; existing rows stay.

    An image that is decoded again to another size keeps its statistics: they would change with the size.
    """
    places = ", ".join("?" for _ in range(1 + len(PHOTO_FIELDS)))
    sql.executemany(
        f"INSERT OR IGNORE INTO {PHOTO_TABLE} (id, {', '.join(PHOTO_FIELDS)}) VALUES ({places})",
        [(one.id, *one.metadata, *one.statistics) for one in results if one.statistics is not None],
    )


def list_images_without_photo_values(sql: Connection, size: int, chunk: int) -> Iterator[list[tuple[int, str]]]:
    """Yield id and path of the images with stored pixels of a size that have no row, in chunks; no placeholders."""
    last = 0
    query = (
        "SELECT id, path FROM images JOIN stored_pixels USING (id, hash) "
        f"WHERE status = 'ok' AND width > 0 AND size = ? AND id > ? AND id NOT IN (SELECT id FROM {PHOTO_TABLE}) "
        "ORDER BY id LIMIT ?"
    )
    while rows := sql.execute(query, (size, last, chunk)).fetchall():
        last = rows[-1][0]
        yield [(number, decode_path(path)) for number, path in rows]


def count_images_without_photo_values(sql: Connection, size: int) -> int:
    """Return how many images `list_images_without_photo_values` yields."""
    query = (
        "SELECT COUNT(*) FROM images JOIN stored_pixels USING (id, hash) "
        f"WHERE status = 'ok' AND width > 0 AND size = ? AND id NOT IN (SELECT id FROM {PHOTO_TABLE})"
    )
    return int(sql.execute(query, (size,)).fetchone()[0])


# ---- list


def replace_list_columns(sql: Connection, names: Sequence[str]) -> None:
    """Store the further columns of a CSV list that have a value, with a type that fits all values of a column.

    Call it within a transaction, after the listing of the import was stored in the table `scan`.

    Args:
        sql: connection of the manifest.
        names: names of the columns, in the order of the cells in `scan`; empty for a source without columns.
    """
    sql.execute(f"DROP TABLE IF EXISTS {LIST_TABLE}")
    sql.execute("DELETE FROM list_columns")
    if not names:
        return
    guesses = [ColumnGuess() for _ in names]
    for _, cells in _read_cells(sql):
        for guess, cell in zip(guesses, cells, strict=True):
            guess.add(cell)
    kept = [number for number, guess in enumerate(guesses) if guess.has_values]
    names, kinds = [names[number] for number in kept], [guesses[number].kind for number in kept]
    if not names:
        return
    columns = ", ".join(f"v{number} {KINDS[kind]}" for number, kind in enumerate(kinds))
    sql.execute(f"CREATE TABLE {LIST_TABLE} (id INTEGER PRIMARY KEY, {columns})")
    sql.executemany("INSERT INTO list_columns VALUES (?, ?, ?)", zip(range(len(names)), names, kinds, strict=True))
    insert = f"INSERT INTO {LIST_TABLE} VALUES ({', '.join('?' for _ in range(1 + len(names)))})"
    rows = (
        (number, *(parse_cell(cells[at], kind) for at, kind in zip(kept, kinds, strict=True)))
        for number, cells in _read_cells(sql)
    )
    while part := list(islice(rows, _INSERTED_ROWS)):
        sql.executemany(insert, part)


def _read_cells(sql: Connection) -> Iterator[tuple[int, list[str]]]:
    """Yield id and cells of every listed image."""
    query = "SELECT images.id, scan.cells FROM scan JOIN images ON images.path = scan.path WHERE scan.cells IS NOT NULL"
    for number, cells in sql.execute(query):
        yield number, json.loads(cells)
