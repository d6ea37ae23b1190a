"""The manifest of a dataset: one row per image, in SQLite, so that it does not have to fit in memory.

The `status` of a row is one of
    pending     listed, not decoded yet (an import is in progress or was interrupted)
    ok          decoded; its pixels are in every pixel store of the dataset
    unreadable  with a `reason` for the user
    removed     no longer in the source; the row is kept, so that the image gets its id and labels back if it returns
`width` is set if and only if the stored pixels belong to `hash`; it is 0 for a placeholder of a missing file.
`content_version` is the version of the manifest in which the current content was imported: older results and labels
belong to other content.
"""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from crlc.data.decode_worker import DecodeItem, DecodeResult, MetadataResult
from crlc.data.manifest_rows import DAMAGED_ADVICE, check_rows
from crlc.data.metadata_tables import create_metadata_tables, insert_photo_values
from crlc.errors import BusyError, CrlcError, DamagedError, DiskFullError, get_sqlite_code, is_disk_full
from crlc.files import NEWER_VERSION_ADVICE
from crlc.paths import decode_path, encode_path

MANIFEST_FILE = "manifest.sqlite"
_FORMAT_VERSION = 1
_BUSY_TIMEOUT_SECONDS = 10
_GOLDEN_RATIO = 0.618033988749895
_RECORD_COLUMNS = (
    *("id", "path", "bytes", "width", "height", "hash", "status", "reason", "class", "split", "content_version"),
)
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    path BLOB UNIQUE,                      -- inside the source; NULL if another image has the path now
    bytes INTEGER NOT NULL,
    stamp TEXT NOT NULL,
    hash BLOB,
    width INTEGER,
    height INTEGER,
    status TEXT NOT NULL,
    reason TEXT,
    class TEXT,
    split TEXT,
    content_version INTEGER NOT NULL,
    first_version INTEGER NOT NULL         -- the version in which the image was first imported
);
CREATE INDEX images_by_hash ON images (hash);
CREATE TABLE stored_pixels (size INTEGER, id INTEGER, hash BLOB, PRIMARY KEY (size, id)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One row of the manifest."""

    id: int
    path: str
    bytes: int
    width: int | None
    height: int | None
    hash: str | None
    status: str
    reason: str | None
    class_name: str | None
    split: str | None
    content_version: int


class Manifest:
    """An open manifest. Only the process that holds the lock of the dataset writes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the manifest of the dataset in `folder`.

        Args:
            folder: the folder of the dataset.
            create: whether to open the manifest for writing, and create it if it does not exist.

        Raises:
            DamagedError: the manifest is missing, damaged, or from a newer version of the program.
        """
        self.path = folder / MANIFEST_FILE
        if not create and not self.path.exists():
            raise DamagedError(f"{self.path} is missing.", advice=DAMAGED_ADVICE)
        with self._explain_errors():
            self.connection = self._connect()
            if create:
                self.connection.execute("PRAGMA journal_mode=WAL")
                self.connection.execute("PRAGMA synchronous=FULL")
                self._create()
                create_metadata_tables(self.connection)
        self._check_format()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __enter__(self) -> Manifest:
        """Use as a context that closes the file."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close the file.

        Raises:
            CrlcError: an SQLite error occurred inside the context.
        """
        self.close()
        if isinstance(error, (sqlite3.DatabaseError, UnicodeDecodeError)):
            with self._explain_errors():
                raise error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as a transaction that is on disk when the block ends."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one consistent state within the block, even while an import writes."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    # ---- the whole dataset

    @property
    def version(self) -> int:
        """Number of finished imports."""
        return int(self._read_meta("version"))

    @property
    def is_complete(self) -> bool:
        """Whether the last import finished."""
        return bool(self._read_meta("complete"))

    def set_complete(self, *, complete: bool) -> None:
        """Record that an import has started or finished; a finished import creates a new version."""
        self._write_meta("complete", int(complete))
        if complete:
            self._write_meta("version", self.version + 1)

    def get_last_id(self) -> int:
        """Return the highest id ever used, which is the number of rows of a pixel store."""
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'images'").fetchone()
        return int(next(check_rows([row], ("count",), self.path))[0]) if row else 0

    def count(self, status: str) -> int:
        """Return the number of rows with a status."""
        return int(self.connection.execute("SELECT COUNT(*) FROM images WHERE status = ?", (status,)).fetchone()[0])

    def count_unreadable_reasons(self) -> dict[str, int]:
        """Return the number of unreadable images by reason, most frequent first."""
        query = "SELECT reason, COUNT(*) FROM images WHERE status = 'unreadable' GROUP BY 1 ORDER BY 2 DESC, 1"
        return dict(check_rows(self.connection.execute(query), ("reason", "count"), self.path))

    def count_exact_duplicates(self) -> int:
        """Return how many readable images are exact copies of an earlier one."""
        query = "SELECT COUNT(*) - COUNT(DISTINCT hash) FROM images WHERE status = 'ok'"
        return int(self.connection.execute(query).fetchone()[0])

    def count_by(self, column: str) -> dict[str, int]:
        """Return the number of readable images by value of the column `class` or `split`, without NULL."""
        query = (
            f"SELECT {column}, COUNT(*) FROM images WHERE status = 'ok' AND {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
        )
        return dict(check_rows(self.connection.execute(query), (column, "count"), self.path))

    # ---- rows

    def read_records(
        self, where: str = "1", parameters: Sequence[object] = (), order: str = "id"
    ) -> Iterator[ImageRecord]:
        """Yield the rows that satisfy a condition.

        Args:
            where: condition in SQL.
            parameters: values of the placeholders in `where`.
            order: column or columns to sort by.
        """
        query = f"SELECT {', '.join(_RECORD_COLUMNS)} FROM images WHERE path IS NOT NULL AND ({where}) ORDER BY {order}"
        for row in check_rows(self.connection.execute(query, parameters), _RECORD_COLUMNS, self.path):
            number, path, size, width, height, digest, *rest = row
            sides = width or None, height or None
            yield ImageRecord(number, decode_path(path), size, *sides, digest and digest.hex(), *rest)

    def read_metadata(self) -> Iterator[tuple[int, str | None, str | None, int]]:
        """Yield id, class, split and content version of every readable image."""
        rows = self.connection.execute("SELECT id, class, split, content_version FROM images WHERE status = 'ok'")
        yield from check_rows(rows, ("id", "class", "split", "content_version"), self.path)

    def read_paths(self) -> Iterator[tuple[int, str]]:
        """Yield id and path of every readable image, by ascending id."""
        rows = self.connection.execute("SELECT id, path FROM images WHERE status = 'ok' ORDER BY id")
        for number, path in check_rows(rows, ("id", "path"), self.path):
            yield number, decode_path(path)

    def read_content_versions(self, ids: Sequence[int]) -> dict[int, int]:
        """Return the version in which the content of images was imported, by id, for readable images only."""
        query = (
            "SELECT images.id, content_version FROM json_each(?) given "
            "JOIN images ON images.id = given.value WHERE status = 'ok'"
        )
        rows = self.connection.execute(query, (json.dumps(list(ids)),))
        return dict(check_rows(rows, ("id", "content_version"), self.path))

    def find_id(self, path: str) -> int | None:
        """Return the id of the readable image at a path inside the source, or `None`."""
        query = "SELECT id FROM images WHERE path = ? AND status = 'ok'"
        row = self.connection.execute(query, (encode_path(path),)).fetchone()
        return row and int(row[0])

    def count_changed_since(self, version: int) -> int:
        """Return the number of images whose content has changed since a version."""
        query = "SELECT COUNT(*) FROM images WHERE content_version > ? AND first_version <= ?"
        return int(self.connection.execute(query, (version, version)).fetchone()[0])

    def has_content_since(self, version: int) -> bool:
        """Return whether an import after a version added or changed a readable image."""
        query = "SELECT 1 FROM images WHERE status = 'ok' AND content_version > ? LIMIT 1"
        return self.connection.execute(query, (version,)).fetchone() is not None

    def sample_records(self, count: int) -> list[ImageRecord]:
        """Return up to `count` evenly spaced readable images, by ascending id."""
        step = max(1, self.count("ok") // count)
        numbered = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS number FROM images WHERE status = 'ok'"
        chosen = f"id IN (SELECT id FROM ({numbered}) WHERE (number - 1) % ? = 0 LIMIT ?)"
        return list(self.read_records(chosen, (step, count)))

    # ---- decoding

    def list_undecoded(self, sizes: Sequence[int], chunk: int) -> Iterator[list[DecodeItem]]:
        """Yield the images that are not decoded to all sizes, at most `chunk` consecutive ones at a time.

        The chunks are spread over the whole dataset at any time, so that the images decoded so far represent all of it.
        """
        is_undecoded = _make_undecoded_condition(sizes)
        ids = array(
            "q", (number for (number,) in self.connection.execute(f"SELECT id FROM images WHERE {is_undecoded}"))
        )
        stored = "SELECT group_concat(size) FROM stored_pixels s WHERE s.id = images.id AND s.hash = images.hash"
        query = (
            f"SELECT id, path, iif(status = 'ok', ({stored}), NULL) FROM images "
            f"WHERE id BETWEEN ? AND ? AND {is_undecoded} ORDER BY id"
        )
        starts = range(0, len(ids), chunk)
        # Multiples of the golden ratio, modulo 1, divide an interval evenly, however many there are.
        for number in sorted(range(len(starts)), key=lambda index: index * _GOLDEN_RATIO % 1):
            part = ids[starts[number] : starts[number] + chunk]
            rows = self.connection.execute(query, (part[0], part[-1])).fetchall()
            yield [(number, decode_path(path), _list_missing_sizes(sizes, there)) for number, path, there in rows]

    def count_undecoded(self, sizes: Sequence[int]) -> int:
        """Return how many images are not decoded to all sizes."""
        return int(
            self.connection.execute(f"SELECT COUNT(*) FROM images WHERE {_make_undecoded_condition(sizes)}").fetchone()[
                0
            ]
        )

    def record_decoded(self, results: Sequence[DecodeResult]) -> None:
        """Record the results of decoding. The caller must have flushed the pixels to disk."""
        version = self.version + 1
        good = [result for result in results if result.reason is None]
        with self.transaction():
            self.connection.executemany(
                "UPDATE images SET status = 'ok', reason = NULL, width = ?, height = ?, "
                "content_version = CASE WHEN hash IS ? THEN content_version ELSE ? END, hash = ? WHERE id = ?",
                [(r.width, r.height, r.hash, version, r.hash, r.id) for r in good],
            )
            self.connection.executemany(
                "INSERT OR REPLACE INTO stored_pixels VALUES (?, ?, ?)",
                [(size, result.id, result.hash) for result in good for size in result.sizes],
            )
            insert_photo_values(self.connection, good)
            # Only pending images change: a readable image whose original is missing keeps its stored pixels.
            self.connection.executemany(
                "UPDATE images SET status = 'unreadable', reason = ?, width = NULL, height = NULL "
                "WHERE id = ? AND status = 'pending'",
                [(result.reason, result.id) for result in results if result.reason is not None],
            )

    def record_metadata(self, results: Sequence[MetadataResult]) -> None:
        """Record the metadata of images that an earlier version decoded."""
        with self.transaction():
            insert_photo_values(self.connection, results)

    def list_stored_ids(self, size: int) -> list[int]:
        """Return the ids of the readable images with stored pixels of a size, ascending."""
        query = "SELECT id FROM images JOIN stored_pixels USING (id, hash) WHERE size = ? AND status = 'ok' ORDER BY id"
        return [number for (number,) in self.connection.execute(query, (size,))]

    def count_stored(self, size: int) -> int:
        """Return the number of rows with pixels in the store of a size, regardless of their status."""
        return int(self.connection.execute("SELECT COUNT(*) FROM stored_pixels WHERE size = ?", (size,)).fetchone()[0])

    def forget_pixels(self, size: int, *, from_id: int) -> None:
        """Record that the stored pixels of a size are lost from `from_id` on, so that they are decoded again."""
        with self.transaction():
            self.connection.execute("DELETE FROM stored_pixels WHERE size = ? AND id >= ?", (size, from_id))

    # ---- implementation

    def _connect(self) -> sqlite3.Connection:
        if os.access(self.path.parent, os.W_OK):
            return sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_TIMEOUT_SECONDS)
        # A read-only workspace: SQLite would write files beside the manifest even to read it.
        address = f"file:{quote(str(self.path))}?mode=ro&immutable=1"
        return sqlite3.connect(address, isolation_level=None, uri=True)

    def _create(self) -> None:
        if self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return
        # One transaction: a process that dies here leaves an empty file, not part of the schema.
        self.connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} "
            f"INSERT INTO meta VALUES ('format', {_FORMAT_VERSION}), ('version', 0), ('complete', 0); COMMIT;"
        )

    def _check_format(self) -> None:
        found = self._read_meta("format")
        if found != _FORMAT_VERSION:
            raise DamagedError(
                f"{self.path} has format version {found}; this program reads version {_FORMAT_VERSION}.",
                advice=NEWER_VERSION_ADVICE,
            )

    def _read_meta(self, key: str) -> int:
        with self._explain_errors():
            row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None or not isinstance(row[0], int):
            raise DamagedError(f"{self.path} is not a manifest of CRLC Studio.", advice=DAMAGED_ADVICE)
        return row[0]

    def _write_meta(self, key: str, value: int) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Convert SQLite errors to errors for the user.

        Only real damage becomes a `DamagedError`, because its advice is to remove the dataset.
        """
        try:
            yield
        except UnicodeDecodeError as error:  # the text of the schema is damaged
            raise DamagedError(f"{self.path} cannot be read ({error}).", advice=DAMAGED_ADVICE) from None
        except sqlite3.DatabaseError as error:
            code = get_sqlite_code(error)
            if code == sqlite3.SQLITE_FULL:
                raise
            if code == sqlite3.SQLITE_IOERR and is_disk_full(self.path):
                raise DiskFullError.for_path(self.path) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(f"{self.path} is in use by another process.", advice="Try again later.") from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise DamagedError(f"{self.path} cannot be read ({error}).", advice=DAMAGED_ADVICE) from None
            raise CrlcError(
                f"{self.path} cannot be used ({error}).", advice="Check its permissions and the disk."
            ) from None


def _list_missing_sizes(sizes: Sequence[int], stored: str | None) -> tuple[int, ...]:
    there = {int(size) for size in stored.split(",")} if stored else set()
    return tuple(size for size in sizes if size not in there)


def _make_undecoded_condition(sizes: Sequence[int]) -> str:
    """Return the SQL condition for rows without stored pixels at one of the sizes."""
    listed = ", ".join(str(int(size)) for size in sizes)
    return (
        "(status = 'pending' OR (status = 'ok' AND (SELECT COUNT(*) FROM stored_pixels s "
        f"WHERE s.id = images.id AND s.hash = images.hash AND s.size IN ({listed})) < {len(sizes)}))"
    )
