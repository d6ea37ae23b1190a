"""The manifest: one row per image of a data set, in SQLite, so that it needs no memory of its own.

A row's `status` is one of
    pending     listed, not decoded yet (an import is under way or was interrupted)
    ok          decoded; its pixels are in every pixel store of the data set
    unreadable  with a `reason` that people understand
    removed     not in the source any more; kept, so that it gets back its id and labels if it returns
`width` is known exactly while the stored pixels belong to `hash`. `content_version` is the manifest
version in which the present content arrived: a result or label older than that is about another picture.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from crlc.data.decode_worker import Decoded, ToDecode
from crlc.errors import BusyError, CrlcError, DamagedError, disk_full, no_space_left
from crlc.names import path_from_bytes, path_to_bytes

FILE_NAME = "manifest.sqlite"
_FORMAT = 1
_PATIENCE_SECONDS = 10
DAMAGED_ADVICE = "Remove the data set and import it again; the originals are untouched."
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE images (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice
    path BLOB UNIQUE,                      -- inside the source; NULL when another image took its place
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
    first_version INTEGER NOT NULL         -- the version in which the image came
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
    """An open manifest. Reading sees one consistent state; only the holder of the lock writes."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the manifest of the data set in `folder`.

        Raises:
            DamagedError: there is none, it is damaged, or a newer program made it.
        """
        self.path = folder / FILE_NAME
        if not create and not self.path.exists():
            raise DamagedError(f"{self.path} is missing. {DAMAGED_ADVICE}")
        with self._trouble_explained():
            self.connection = self._connect()
            if create:
                self.connection.execute("PRAGMA journal_mode=WAL")
                self.connection.execute("PRAGMA synchronous=FULL")
                self._create()
        self._check_format()

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def __enter__(self) -> Manifest:
        """Use as a context that closes the file."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close the file. What SQLite said meanwhile, perhaps in the middle of reading, is explained.

        Raises:
            CrlcError: in place of an error of SQLite.
        """
        self.close()
        if isinstance(error, sqlite3.DatabaseError):
            with self._trouble_explained():
                raise error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; on the disk when it ends."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Ask several questions about one state, whatever an import writes meanwhile."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    # ---- facts about the whole

    @property
    def version(self) -> int:
        """How many imports have been completed."""
        return int(self._meta("version"))

    @property
    def complete(self) -> bool:
        """Whether the last import reached its end."""
        return bool(self._meta("complete"))

    def set_complete(self, *, complete: bool) -> None:
        """Note that an import begins, or that it reached its end (a new version)."""
        self._set_meta("complete", int(complete))
        if complete:
            self._set_meta("version", self.version + 1)

    def last_id(self) -> int:
        """The highest id ever given, so the number of rows a pixel store needs."""
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'images'").fetchone()
        return int(row[0]) if row else 0

    def count(self, status: str) -> int:
        """How many rows have that status."""
        return int(self.connection.execute("SELECT COUNT(*) FROM images WHERE status = ?", (status,)).fetchone()[0])

    def reasons(self) -> dict[str, int]:
        """Why images are unreadable, most frequent first."""
        query = "SELECT reason, COUNT(*) FROM images WHERE status = 'unreadable' GROUP BY 1 ORDER BY 2 DESC, 1"
        return dict(self.connection.execute(query))

    def exact_duplicates(self) -> int:
        """How many readable images are copies of an earlier one, byte for byte."""
        query = "SELECT COUNT(*) - COUNT(DISTINCT hash) FROM images WHERE status = 'ok'"
        return int(self.connection.execute(query).fetchone()[0])

    def counts_by(self, column: str) -> dict[str, int]:
        """How many readable images have each value of `class` or `split`, where they have one."""
        query = (
            f"SELECT {column}, COUNT(*) FROM images WHERE status = 'ok' AND {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
        )
        return dict(self.connection.execute(query))

    # ---- rows

    def records(self, where: str = "1", parameters: Sequence[object] = (), order: str = "id") -> Iterator[ImageRecord]:
        """The rows that fulfil a condition, streaming."""
        columns = "id, path, bytes, width, height, hash, status, reason, class, split, content_version"
        query = f"SELECT {columns} FROM images WHERE path IS NOT NULL AND ({where}) ORDER BY {order}"
        for row in self.connection.execute(query, parameters):
            number, path, size, width, height, digest, *rest = row
            yield ImageRecord(number, path_from_bytes(path), size, width, height, digest and digest.hex(), *rest)

    def facts(self) -> Iterator[tuple[int, str | None, str | None, int]]:
        """Id, class, split and content version of every readable image."""
        yield from self.connection.execute("SELECT id, class, split, content_version FROM images WHERE status = 'ok'")

    def content_versions(self, ids: Sequence[int]) -> dict[int, int]:
        """The version in which the content of images arrived; without those that are no readable image."""
        query = (
            "SELECT images.id, content_version FROM json_each(?) given "
            "JOIN images ON images.id = given.value WHERE status = 'ok'"
        )
        return dict(self.connection.execute(query, (json.dumps(list(ids)),)))

    def id_at(self, path: str) -> int | None:
        """The readable image at a path inside the source."""
        query = "SELECT id FROM images WHERE path = ? AND status = 'ok'"
        row = self.connection.execute(query, (path_to_bytes(path),)).fetchone()
        return row and int(row[0])

    def count_changed_since(self, version: int) -> int:
        """How many images that were known at a version have got other content later."""
        query = "SELECT COUNT(*) FROM images WHERE content_version > ? AND first_version <= ?"
        return int(self.connection.execute(query, (version, version)).fetchone()[0])

    def sample(self, count: int) -> list[ImageRecord]:
        """A few readable images at even distances, in the order of their ids."""
        step = max(1, self.count("ok") // count)
        numbered = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS number FROM images WHERE status = 'ok'"
        chosen = f"id IN (SELECT id FROM ({numbered}) WHERE (number - 1) % ? = 0 LIMIT ?)"
        return list(self.records(chosen, (step, count)))

    # ---- decoding

    def to_decode(self, sizes: Sequence[int], chunk: int) -> Iterator[list[ToDecode]]:
        """What is still to be decoded, in chunks, each asked for when it is needed."""
        last = 0
        stored = "SELECT group_concat(size) FROM stored_pixels s WHERE s.id = images.id AND s.hash = images.hash"
        query = (
            f"SELECT id, path, iif(status = 'ok', ({stored}), NULL) FROM images "
            f"WHERE id > ? AND {_undecoded(sizes)} ORDER BY id LIMIT ?"
        )
        while rows := self.connection.execute(query, (last, chunk)).fetchall():
            last = rows[-1][0]
            yield [(number, path_from_bytes(path), _missing(sizes, there)) for number, path, there in rows]

    def count_to_decode(self, sizes: Sequence[int]) -> int:
        """How many images are still to be decoded."""
        return int(self.connection.execute(f"SELECT COUNT(*) FROM images WHERE {_undecoded(sizes)}").fetchone()[0])

    def record_decoded(self, results: Sequence[Decoded]) -> None:
        """Note what came of decoding; the caller has flushed the pixels to the disk before."""
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
            # A readable image whose original is away keeps the sizes it has, so only pending ones change.
            self.connection.executemany(
                "UPDATE images SET status = 'unreadable', reason = ?, width = NULL, height = NULL "
                "WHERE id = ? AND status = 'pending'",
                [(result.reason, result.id) for result in results if result.reason is not None],
            )

    def stored_ids(self, size: int) -> list[int]:
        """Ids of the readable images whose pixels are stored at that size, ascending."""
        query = "SELECT id FROM images JOIN stored_pixels USING (id, hash) WHERE size = ? AND status = 'ok' ORDER BY id"
        return [number for (number,) in self.connection.execute(query, (size,))]

    def count_stored(self, size: int) -> int:
        """How many rows of the store of that size hold pixels, of whatever status."""
        return int(self.connection.execute("SELECT COUNT(*) FROM stored_pixels WHERE size = ?", (size,)).fetchone()[0])

    def forget_pixels(self, size: int, *, from_id: int) -> None:
        """Note that the stored pixels of a size are gone from that id on, so that they are made again."""
        with self.transaction():
            self.connection.execute("DELETE FROM stored_pixels WHERE size = ? AND id >= ?", (size, from_id))

    # ---- inside

    def _connect(self) -> sqlite3.Connection:
        if os.access(self.path.parent, os.W_OK):
            return sqlite3.connect(self.path, isolation_level=None, timeout=_PATIENCE_SECONDS)
        # Somebody else's workspace: SQLite would want to write beside the file even to read it.
        address = f"file:{quote(str(self.path))}?mode=ro&immutable=1"
        return sqlite3.connect(address, isolation_level=None, uri=True)

    def _create(self) -> None:
        if self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return
        # One transaction: a process that dies here leaves an empty file, not half a schema.
        self.connection.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} "
            f"INSERT INTO meta VALUES ('format', {_FORMAT}), ('version', 0), ('complete', 0); COMMIT;"
        )

    def _check_format(self) -> None:
        found = self._meta("format")
        if found != _FORMAT:
            raise DamagedError(
                f"{self.path} has format {found}; this program knows {_FORMAT}. "
                "Update CRLC Studio, or use the version that made it."
            )

    def _meta(self, key: str) -> int:
        with self._trouble_explained():
            row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None or not isinstance(row[0], int):
            raise DamagedError(
                f"{self.path} is not a manifest of CRLC Studio. Remove the data set and import it again."
            )
        return row[0]

    def _set_meta(self, key: str, value: int) -> None:
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def _trouble_explained(self) -> Iterator[None]:
        """Only what is really damage is called so: the advice for that is to remove the data set."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = (error.sqlite_errorcode or 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise
            if code == sqlite3.SQLITE_IOERR and no_space_left(self.path):
                raise disk_full(self.path) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(f"{self.path} is in use by another process. Try again in a moment.") from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise DamagedError(f"{self.path} cannot be read ({error}). {DAMAGED_ADVICE}") from None
            raise CrlcError(f"{self.path} cannot be used ({error}). Check your rights and the disk.") from None


def _missing(sizes: Sequence[int], stored: str | None) -> tuple[int, ...]:
    there = {int(size) for size in stored.split(",")} if stored else set()
    return tuple(size for size in sizes if size not in there)


def _undecoded(sizes: Sequence[int]) -> str:
    """The condition for rows that lack their pixels at one of the sizes."""
    listed = ", ".join(str(int(size)) for size in sizes)
    return (
        "(status = 'pending' OR (status = 'ok' AND (SELECT COUNT(*) FROM stored_pixels s "
        f"WHERE s.id = images.id AND s.hash = images.hash AND s.size IN ({listed})) < {len(sizes)}))"
    )
