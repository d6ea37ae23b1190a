"""The file `annotations.sqlite` of a data set: rows are added, never changed, and on the disk before a call returns."""

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
from crlc.errors import BusyError, CrlcError, DamagedError, NotFoundError, disk_full_explained
from crlc.files import put_in_place, writer_lock

FILE_NAME = "annotations.sqlite"
_KIND, _FORMAT = "annotations", 1
_PATIENCE_SECONDS = 10
_ADVICE = "Put back a copy of it, or move it away to begin again without labels."
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,     -- of an operation, or undo, or redo
    run TEXT,               -- the run it is about; NULL: the data set
    title TEXT NOT NULL,    -- in words
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
    """The log of one data set; the file is made when first written to.

    Not safe for two threads at once: its owner holds a lock.
    """

    def __init__(self, folder: Path, info: DatasetInfo) -> None:
        """Take the data set's folder and description; nothing is opened yet."""
        self.path = folder.absolute() / FILE_NAME
        self._name, self._uid = info.name, info.uid
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def exists(self) -> bool:
        """Whether anything was ever written.

        Raises:
            CrlcError: what is there cannot be used.
        """
        return self._open() is not None

    def rows_after(self, row_id: int, until: int | None = None) -> Iterator[LogRow]:
        """The rows that came after one, oldest first, streaming."""
        connection = self._open()
        if connection is None:
            return
        query = f"SELECT {_COLUMNS} FROM operations WHERE id > ? AND (id <= ? OR ? IS NULL) ORDER BY id"
        with self._trouble_explained():
            for row in connection.execute(query, (row_id, until, until)):
                yield LogRow(*row)

    def row(self, row_id: int) -> LogRow:
        """One row.

        Raises:
            DamagedError: it is not there.
        """
        connection = self._open()
        with self._trouble_explained():
            query = f"SELECT {_COLUMNS} FROM operations WHERE id = ?"
            found = None if connection is None else connection.execute(query, (row_id,)).fetchone()
        if found is None:
            raise DamagedError(f"{self.path} has lost its row {row_id}. {_ADVICE}")
        return LogRow(*found)

    def titles(self, row_ids: Sequence[int]) -> list[LogRow]:
        """Some rows without their content, in the order given."""
        connection = self._open()
        if connection is None or not row_ids:
            return []
        query = (
            "SELECT operations.id, time, kind, run, title, '' FROM json_each(?) given "
            "CROSS JOIN operations ON operations.id = given.value ORDER BY given.key"
        )
        with self._trouble_explained():
            return [LogRow(*row) for row in connection.execute(query, (json.dumps(list(row_ids)),))]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer meanwhile; what was added is on the disk when it ends, or not there at all."""
        connection = self._open() or self._create()
        with self._trouble_explained():
            connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._trouble_explained():
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def append(self, kind: str, run: str | None, title: str, content: dict[str, Any]) -> LogRow:
        """Add a row, inside `writing`."""
        connection = self._open()
        assert connection is not None
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        query = "INSERT INTO operations (time, kind, run, title, content) VALUES (?, ?, ?, ?, ?)"
        with self._trouble_explained():
            row_id = connection.execute(query, (time, kind, run, title, text)).lastrowid
        assert row_id is not None
        return LogRow(row_id, time, kind, run, title, text)

    def damaged(self, row: LogRow, error: Exception) -> DamagedError:
        """The error for a row that makes no sense."""
        return DamagedError(f"{self.path} cannot be read (row {row.id}: {error}). {_ADVICE}")

    # ---- inside

    def _open(self) -> sqlite3.Connection | None:
        """The connection, or none while there is no file. An open file that was removed is not written to."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            if self._connection is not None:
                raise self._gone() from None
            return None
        identity = (status.st_dev, status.st_ino)
        if self._connection is not None:
            if identity != self._identity:
                raise self._gone()
            return self._connection
        with self._trouble_explained():
            connection = self._connect()
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, identity
        return connection

    def _connect(self) -> sqlite3.Connection:
        mode = "rw"  # never "rwc": a file that has just been removed is not to come back empty
        if not os.access(self.path.parent, os.W_OK):
            # Somebody else's workspace: SQLite would want to write beside the file even to read it.
            wal = self.path.with_name(self.path.name + "-wal")
            mode = "ro" if wal.exists() and wal.stat().st_size else "ro&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=_PATIENCE_SECONDS,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # macOS: through the drive's own cache; elsewhere no effect
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        with self._trouble_explained():
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                raise DamagedError(f"{self.path} is not a file of labels of CRLC Studio. {_ADVICE}")
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get("kind") != _KIND:
            raise DamagedError(f"{self.path} is not a file of labels of CRLC Studio. {_ADVICE}")
        if meta.get("format") != _FORMAT:
            raise DamagedError(
                f"{self.path} has format {meta.get('format')!r}; this program knows {_FORMAT}. "
                "Update CRLC Studio, or use the version that made it."
            )
        if meta.get("dataset") != self._uid:
            raise DamagedError(
                f"{self.path} belongs to another data set than {self._name!r}: its labels are about other images. "
                f"{_ADVICE}"
            )

    def _create(self) -> sqlite3.Connection:
        """Make the file under another name and rename it, so that nobody meets half of one."""
        folder = self.path.parent
        temporary = folder / f".{FILE_NAME}.{uuid.uuid4().hex}.part"
        try:
            if DatasetInfo.load(folder).uid != self._uid:
                raise self._gone()
            lock = folder / f".{FILE_NAME}.lock"
            with (
                self._trouble_explained(),
                writer_lock(lock, f"The file of labels of {self._name!r}", _PATIENCE_SECONDS),
            ):
                if not self.path.exists():
                    self._make(temporary)
                    put_in_place(temporary, self.path)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise self._gone() from None
            raise CrlcError(
                f"{self.path} cannot be written: {error.strerror or error}. Check your rights and the disk."
            ) from None
        finally:
            for leftover in (temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm"))):
                with suppress(OSError):
                    leftover.unlink()
        connection = self._open()
        if connection is None:
            raise self._gone()
        return connection

    def _make(self, file: Path) -> None:
        connection = sqlite3.connect(file, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.executescript(f"BEGIN; {_SCHEMA}")
            meta = [("kind", _KIND), ("format", _FORMAT), ("dataset", self._uid)]
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # all of it in the one file that is renamed
        finally:
            connection.close()

    def _gone(self) -> NotFoundError:
        return NotFoundError(
            f"The data set {self._name!r} or its labels were removed since they were opened. Open it again."
        )

    @contextmanager
    def _trouble_explained(self) -> Iterator[None]:
        """Only what is really damage is called so."""
        try:
            with disk_full_explained(self.path):
                yield
        except sqlite3.DatabaseError as error:
            code = (error.sqlite_errorcode or 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BusyError(f"{self.path} is in use by another process. Try again in a moment.") from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise DamagedError(f"{self.path} cannot be read ({error}). {_ADVICE}") from None
            if code == sqlite3.SQLITE_READONLY:
                raise CrlcError(
                    f"{self.path} cannot be written: it is read-only. Check your rights and the disk. "
                    "Nothing was changed."
                ) from None
            raise CrlcError(f"{self.path} cannot be used ({error}). Check your rights and the disk.") from None
