"""Annotation log of a dataset: an append-only SQLite file. Every write is on disk before the call returns."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crlc.data.dataset import DatasetInfo
from crlc.errors import (
    AccessError,
    BusyError,
    CrlcError,
    DamagedError,
    NotFoundError,
    explain_disk_full,
    explain_system_error,
    get_sqlite_code,
)
from crlc.files import NEWER_VERSION_ADVICE, replace_file, writer_lock

DATABASE_FILE = "annotations.sqlite"
_KIND, _FORMAT = "annotations", 1
_LOCK_TIMEOUT_SECONDS = 10
_ADVICE = "Restore it from a backup, or move it away to start again without labels."
_ACCESS_ADVICE = "Check the permissions of the file and the disk."
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,     -- of the operation, or undo, or redo
    run TEXT,               -- run whose clusters are edited; NULL: the dataset
    title TEXT NOT NULL,    -- for the user
    content TEXT NOT NULL   -- JSON
);
CREATE TRIGGER operations_are_not_changed BEFORE UPDATE ON operations
    BEGIN SELECT RAISE(ABORT, 'operations are only added'); END;
CREATE TRIGGER operations_are_not_deleted BEFORE DELETE ON operations
    BEGIN SELECT RAISE(ABORT, 'operations are only added'); END;
"""
_COLUMNS = "id, time, kind, run, title, content"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of the log."""

    id: int
    time: str
    kind: str
    run: str | None
    title: str
    content: str


class AnnotationLog:
    """Log of one dataset; the file is created by the first write.

    Not safe for several threads: the owner holds a lock.
    """

    def __init__(self, folder: Path, info: DatasetInfo) -> None:
        """Store the folder and the description of the dataset; nothing is opened yet."""
        self.path = folder.absolute() / DATABASE_FILE
        self._name, self._uid = info.name, info.uid
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def exists(self) -> bool:
        """Return whether the file exists.

        Raises:
            CrlcError: the file cannot be used.
        """
        return self._open() is not None

    def read_rows(self, row_id: int, until: int | None = None) -> Iterator[LogRow]:
        """Yield the rows after a row, oldest first.

        Args:
            row_id: last row that the caller knows; 0 for all rows.
            until: last row to yield; `None` for the newest.
        """
        connection = self._open()
        if connection is None:
            return
        query = f"SELECT {_COLUMNS} FROM operations WHERE id > ? AND (id <= ? OR ? IS NULL) ORDER BY id"
        with self._explain_errors():
            for row in connection.execute(query, (row_id, until, until)):
                yield self._make_row(row)

    def read_row(self, row_id: int) -> LogRow:
        """Return one row.

        Raises:
            DamagedError: the row is missing.
        """
        connection = self._open()
        with self._explain_errors():
            query = f"SELECT {_COLUMNS} FROM operations WHERE id = ?"
            found = None if connection is None else connection.execute(query, (row_id,)).fetchone()
        if found is None:
            raise DamagedError(f"{self.path} has no row {row_id}.", advice=_ADVICE)
        return self._make_row(found)

    def read_titles(self, row_ids: Sequence[int]) -> list[LogRow]:
        """Return rows without their content, in the given order."""
        connection = self._open()
        if connection is None or not row_ids:
            return []
        query = (
            "SELECT operations.id, time, kind, run, title, '' FROM json_each(?) given "
            "CROSS JOIN operations ON operations.id = given.value ORDER BY given.key"
        )
        with self._explain_errors():
            return [self._make_row(row) for row in connection.execute(query, (json.dumps(list(row_ids)),))]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock. On exit, all appended rows are on disk; after an error, none of them are."""
        connection = self._open() or self._create()
        with self._explain_errors():
            connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._explain_errors():
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def append(self, kind: str, run: str | None, title: str, content: dict[str, Any]) -> LogRow:
        """Append a row and return it; must be called inside `transaction`.

        Args:
            kind: kind of the operation, or `undo`, or `redo`.
            run: run whose clusters are edited; `None` for an operation on the dataset.
            title: description for the user.
            content: JSON content of the operation.
        """
        connection = self._open()
        assert connection is not None
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        query = "INSERT INTO operations (time, kind, run, title, content) VALUES (?, ?, ?, ?, ?)"
        with self._explain_errors():
            row_id = connection.execute(query, (time, kind, run, title, text)).lastrowid
        assert row_id is not None
        return LogRow(row_id, time, kind, run, title, text)

    def _make_row(self, values: tuple[Any, ...]) -> LogRow:
        """Return a row; SQLite stores values of any type in any column."""
        row = LogRow(*values)
        texts = (row.time, row.kind, row.title, row.content, row.run or "")
        if not all(isinstance(text, str) for text in texts):
            raise self.make_damaged_error(row, ValueError("a value is not text"))
        return row

    def make_damaged_error(self, row: LogRow, error: Exception) -> DamagedError:
        """Return the error for a row that cannot be applied."""
        return DamagedError(f"{self.path} cannot be read (row {row.id}: {error}).", advice=_ADVICE)

    # ---- implementation

    def _open(self) -> sqlite3.Connection | None:
        """Return the connection, or `None` if there is no file. Raise an error if the file was removed while open."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            if self._connection is not None:
                raise self._make_removed_error() from None
            return None
        except PermissionError:
            raise AccessError.for_path(self.path, "read") from None
        except OSError as error:
            damaged = DamagedError(f"{self.path} cannot be read ({error.strerror}).", advice=_ADVICE)
            raise explain_system_error(error, self.path) or damaged from None
        identity = (status.st_dev, status.st_ino)
        if self._connection is not None:
            if identity != self._identity:
                raise self._make_removed_error()
            return self._connection
        with self._explain_errors():
            connection = self._connect()
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, identity
        return connection

    def _connect(self) -> sqlite3.Connection:
        mode = "rw"  # never "rwc": a file that has just been removed must not come back empty
        if not os.access(self.path.parent, os.W_OK):
            # The workspace is read-only. In the usual mode, SQLite writes files beside this one even to read it.
            wal = self.path.with_name(self.path.name + "-wal")
            mode = "ro" if wal.exists() and wal.stat().st_size else "ro&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=_LOCK_TIMEOUT_SECONDS,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # macOS: flushes the cache of the drive as well; no effect elsewhere
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        with self._explain_errors():
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                raise DamagedError(f"{self.path} is not an annotations file of CRLC Studio.", advice=_ADVICE)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get("kind") != _KIND:
            raise DamagedError(f"{self.path} is not an annotations file of CRLC Studio.", advice=_ADVICE)
        if meta.get("format") != _FORMAT:
            raise DamagedError(
                f"{self.path} has format version {meta.get('format')!r}; this program reads version {_FORMAT}.",
                advice=NEWER_VERSION_ADVICE,
            )
        if meta.get("dataset") != self._uid:
            raise DamagedError(
                f"{self.path} belongs to a dataset other than {self._name!r}: its labels are for other images.",
                advice=_ADVICE,
            )

    def _create(self) -> sqlite3.Connection:
        """Create the file under a temporary name and rename it, so that no reader sees an incomplete file."""
        folder = self.path.parent
        temporary = folder / f".{DATABASE_FILE}.{uuid.uuid4().hex}.part"
        try:
            if DatasetInfo.load(folder).uid != self._uid:
                raise self._make_removed_error()
            lock = folder / f".{DATABASE_FILE}.lock"
            with (
                self._explain_errors(),
                writer_lock(lock, f"The annotations file of {self._name!r}", _LOCK_TIMEOUT_SECONDS),
            ):
                if not self.path.exists():
                    self._write_schema(temporary)
                    replace_file(temporary, self.path)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise self._make_removed_error() from None
            raise CrlcError(
                f"{self.path} cannot be written: {error.strerror or error}.", advice=_ACCESS_ADVICE
            ) from None
        finally:
            for leftover in (temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm"))):
                with suppress(OSError):
                    leftover.unlink()
        connection = self._open()
        if connection is None:
            raise self._make_removed_error()
        return connection

    def _write_schema(self, file: Path) -> None:
        connection = sqlite3.connect(file, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(f"BEGIN; {_SCHEMA}")
            meta = [("kind", _KIND), ("format", _FORMAT), ("dataset", self._uid)]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file must be complete before it is renamed
        finally:
            connection.close()

    def _make_removed_error(self) -> NotFoundError:
        return NotFoundError(
            f"The dataset {self._name!r} or its annotations were removed while open.", advice="Open the dataset again."
        )

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Translate SQLite errors into errors for the user; only real damage becomes a `DamagedError`."""
        try:
            with explain_disk_full(self.path):
                yield
        except UnicodeDecodeError as error:  # the text of the schema is damaged
            raise DamagedError(f"{self.path} cannot be read ({error}).", advice=_ADVICE) from None
        except sqlite3.DatabaseError as error:
            code = get_sqlite_code(error)
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(f"Another process is writing {self.path}.", advice="Try again in a moment.") from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise DamagedError(f"{self.path} cannot be read ({error}).", advice=_ADVICE) from None
            if code == sqlite3.SQLITE_READONLY:
                raise CrlcError(
                    f"{self.path} cannot be written: it is read-only. Nothing was changed.", advice=_ACCESS_ADVICE
                ) from None
            raise CrlcError(f"{self.path} cannot be used ({error}).", advice=_ACCESS_ADVICE) from None
