"""What became of each image since the last import: same, renamed, changed, new or gone.

The listing of the source goes into a temporary table, and SQL compares it with the manifest, so that
neither has to fit in memory. Nothing in the manifest changes before `apply`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from crlc.data.manifest import Manifest
from crlc.data.sources import Entry
from crlc.errors import SourceError
from crlc.names import path_from_bytes, path_to_bytes, printable

_BATCH = 1000
_SCAN = """
CREATE TEMP TABLE scan (
    path BLOB PRIMARY KEY, bytes INTEGER, stamp TEXT, split TEXT, class TEXT, problem TEXT,
    hash BLOB,      -- only of files that may be new or changed, and only when there is something to compare with
    image INTEGER,  -- the row of `images` that this file is
    fate TEXT       -- same, renamed, changed, new
) WITHOUT ROWID;
CREATE INDEX temp.scan_by_image ON scan (image);
CREATE INDEX temp.scan_by_fate ON scan (fate);
"""


@dataclass(frozen=True, slots=True)
class Fates:
    """How many images met which fate."""

    found: int
    same: int
    renamed: int
    changed: int
    new: int
    removed: int


class Reconciliation:
    """The comparison of one listing with the manifest."""

    def __init__(self, manifest: Manifest) -> None:
        """Start with an empty listing."""
        self._manifest = manifest
        self._sql = manifest.connection
        self._sql.create_function("spread", 1, _spread, deterministic=True)
        self._sql.create_function("base_name", 1, _base_name, deterministic=True)
        self._sql.executescript(f"DROP TABLE IF EXISTS temp.scan; {_SCAN}")

    def add(self, entries: Iterable[Entry], limit: int | None) -> int:
        """Take the listing, or a spread-out and repeatable part of it; returns how many were taken.

        Raises:
            SourceError: one path is listed twice with different classes.
        """
        self._sql.execute("BEGIN")
        try:
            remaining = iter(entries)
            while batch := list(islice(remaining, _BATCH)):
                self._insert(batch)
        finally:
            self._sql.execute("COMMIT")
        if limit is not None:
            self._sql.execute(
                "DELETE FROM scan WHERE path NOT IN (SELECT path FROM scan ORDER BY spread(path) LIMIT ?)", (limit,)
            )
        return self._count("1")

    def needs_hashes(self) -> bool:
        """Whether there are earlier images that a new file might be."""
        return self._sql.execute("SELECT 1 FROM images WHERE hash IS NOT NULL LIMIT 1").fetchone() is not None

    def match_unchanged(self) -> None:
        """Find the files that are as they were, by path, length and stamp."""
        self._sql.execute(
            "UPDATE scan SET fate = 'same', image = i.id FROM images i WHERE i.path = scan.path "
            "AND i.bytes = scan.bytes AND i.stamp = scan.stamp AND i.width IS NOT NULL AND scan.problem IS NULL"
        )
        # What was never read has no content to compare: it is to be decoded, and need not be hashed before.
        self._sql.execute(
            "UPDATE scan SET fate = 'changed', image = i.id FROM images i WHERE i.path = scan.path "
            "AND i.bytes = scan.bytes AND i.stamp = scan.stamp AND i.hash IS NULL AND scan.problem IS NULL"
        )

    def unmatched(self, chunk: int) -> Iterator[list[str]]:
        """Paths of the files whose content must be looked at, in chunks."""
        last = b""
        while True:
            query = "SELECT path FROM scan WHERE path > ? AND fate IS NULL AND problem IS NULL ORDER BY path LIMIT ?"
            rows = [path for (path,) in self._sql.execute(query, (last, chunk))]
            if not rows:
                return
            last = rows[-1]
            yield [path_from_bytes(path) for path in rows]

    def count_unmatched(self) -> int:
        """How many files must be looked at."""
        return self._count("fate IS NULL AND problem IS NULL")

    def set_hashes(self, hashes: Iterable[tuple[str, bytes | None]]) -> None:
        """Note the content hashes of files."""
        self._sql.executemany(
            "UPDATE scan SET hash = ? WHERE path = ?", [(digest, path_to_bytes(path)) for path, digest in hashes]
        )

    def match_contents(self) -> None:
        """Find the files that were only touched, the renamed ones, the changed ones and the new ones."""
        self._sql.execute(
            "UPDATE scan SET fate = 'same', image = i.id FROM images i "
            "WHERE scan.fate IS NULL AND i.path = scan.path AND i.hash = scan.hash AND i.width IS NOT NULL"
        )
        self._match_renamed()
        self._sql.execute(
            "UPDATE scan SET fate = 'changed', image = i.id FROM images i WHERE scan.fate IS NULL "
            "AND i.path = scan.path AND NOT EXISTS (SELECT 1 FROM scan taken WHERE taken.image = i.id)"
        )
        self._sql.execute("UPDATE scan SET fate = 'new' WHERE fate IS NULL")

    def keeps_known_images(self) -> bool:
        """Whether an image read before is still there with the same content, or none was ever read."""
        kept = self._sql.execute("SELECT 1 FROM scan WHERE fate IN ('same', 'renamed') LIMIT 1").fetchone()
        return kept is not None or self._manifest.count("ok") == 0

    def replaced(self) -> Iterator[str]:
        """Paths at which an image was read before and something else is now."""
        query = (
            "SELECT scan.path FROM scan JOIN images i ON i.id = scan.image "
            "WHERE fate = 'changed' AND i.status = 'ok' AND scan.problem IS NULL ORDER BY scan.path"
        )
        yield from (path_from_bytes(path) for (path,) in self._sql.execute(query))

    def apply(self) -> Fates:
        """Write it all into the manifest, in one transaction."""
        with self._manifest.transaction():
            fates = self._counts()
            self._manifest.set_complete(complete=False)
            self._vacate_paths()
            self._update_matched()
            self._sql.execute(
                "INSERT INTO images (path, bytes, stamp, status, reason, content_version, first_version) "
                "SELECT path, bytes, stamp, iif(problem IS NULL, 'pending', 'unreadable'), problem, ?1, ?1 "
                "FROM scan WHERE fate = 'new' ORDER BY path",
                (self._manifest.version + 1,),
            )
            self._sql.execute(
                "UPDATE images SET split = s.split FROM scan s "
                "WHERE images.path = s.path AND images.split IS NOT s.split"
            )
        return fates

    # ---- inside

    def _insert(self, entries: list[Entry]) -> None:
        cursor = self._sql.executemany(
            "INSERT OR IGNORE INTO scan (path, bytes, stamp, split, class, problem) VALUES (?, ?, ?, ?, ?, ?)",
            [(path_to_bytes(e.path), e.bytes, e.stamp, e.split, e.class_name, e.problem) for e in entries],
        )
        if cursor.rowcount < len(entries):  # some path was listed before
            for entry in entries:
                self._require_same_class(entry)

    def _require_same_class(self, entry: Entry) -> None:
        query = "SELECT class FROM scan WHERE path = ?"
        (known,) = self._sql.execute(query, (path_to_bytes(entry.path),)).fetchone()
        if known != entry.class_name:
            raise SourceError(
                f"{printable(entry.path)} is listed twice with different classes, {known!r} and {entry.class_name!r}. "
                "Keep one of the two lines."
            )

    def _match_renamed(self) -> None:
        """Find images that left their path and stand, byte for byte, at another."""
        query = "SELECT path, hash FROM scan WHERE fate IS NULL AND hash IN (SELECT hash FROM images) ORDER BY path"
        for path, digest in self._sql.execute(query).fetchall():
            row = self._sql.execute(
                "SELECT id FROM images i WHERE hash = ? AND width IS NOT NULL "
                "AND NOT EXISTS (SELECT 1 FROM scan taken WHERE taken.image = i.id) "
                "ORDER BY base_name(i.path) = base_name(?) DESC, status, id LIMIT 1",
                (digest, path),
            ).fetchone()
            if row:
                self._sql.execute("UPDATE scan SET fate = 'renamed', image = ? WHERE path = ?", (row[0], path))

    def _vacate_paths(self) -> None:
        """Free every path that gets another owner, and mark what is gone."""
        self._sql.execute(
            "UPDATE images SET status = 'removed' WHERE NOT EXISTS (SELECT 1 FROM scan WHERE scan.image = images.id)"
        )
        self._sql.execute(
            "UPDATE images SET path = NULL WHERE id IN (SELECT image FROM scan WHERE fate = 'renamed') "
            "OR (status = 'removed' AND path IN (SELECT path FROM scan))"
        )

    def _update_matched(self) -> None:
        self._sql.execute(
            "UPDATE images SET path = scan.path, bytes = scan.bytes, stamp = scan.stamp, status = 'ok' "
            "FROM scan WHERE scan.image = images.id AND scan.fate IN ('same', 'renamed')"
        )
        # What was there is kept until its successor is decoded; without a width it is not taken for good.
        self._sql.execute(
            "UPDATE images SET bytes = scan.bytes, stamp = scan.stamp, width = NULL, height = NULL, "
            "status = iif(scan.problem IS NULL, 'pending', 'unreadable'), reason = scan.problem "
            "FROM scan WHERE scan.image = images.id AND scan.fate = 'changed'"
        )
        self._sql.execute("DELETE FROM stored_pixels WHERE id IN (SELECT image FROM scan WHERE fate = 'changed')")

    def _counts(self) -> Fates:
        removed = self._sql.execute(
            "SELECT COUNT(*) FROM images WHERE status != 'removed' "
            "AND NOT EXISTS (SELECT 1 FROM scan WHERE scan.image = images.id)"
        ).fetchone()[0]
        changed = self._sql.execute(
            "SELECT COUNT(*) FROM scan JOIN images i ON i.id = scan.image WHERE fate = 'changed' AND i.status = 'ok'"
        ).fetchone()[0]
        return Fates(
            found=self._count("1"),
            same=self._count("fate = 'same'"),
            renamed=self._count("fate = 'renamed'"),
            changed=int(changed),
            new=self._count("fate = 'new'"),
            removed=int(removed),
        )

    def _count(self, where: str) -> int:
        return int(self._sql.execute(f"SELECT COUNT(*) FROM scan WHERE {where}").fetchone()[0])


def _spread(path: bytes) -> bytes:
    """An order of paths that mixes folders, the same on every computer."""
    return hashlib.blake2b(path, digest_size=8).digest()


def _base_name(path: bytes | None) -> bytes | None:
    return path and path.rsplit(b"/", 1)[-1]
