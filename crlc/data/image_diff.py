"""Difference between the listing of a source and the manifest: unchanged, renamed, changed, new and removed images.

The listing is stored in a temporary table, and SQL compares it with the manifest, so that neither has to fit in
memory. Nothing in the manifest changes before `apply`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from crlc.data.manifest import Manifest
from crlc.data.metadata_tables import PHOTO_TABLE
from crlc.data.sources import SourceEntry
from crlc.errors import SourceError
from crlc.paths import decode_path, encode_path, to_printable

_INSERTED_ROWS = 1000
_SCAN = """
CREATE TEMP TABLE scan (
    path BLOB PRIMARY KEY, bytes INTEGER, stamp TEXT, split TEXT, class TEXT, problem TEXT,
    cells TEXT,     -- further cells of a CSV list, as JSON
    hash BLOB,      -- only of files that may be new or changed, and only if there are images to compare with
    image INTEGER,  -- id of the image in the manifest
    change TEXT     -- same, renamed, changed, new
) WITHOUT ROWID;
CREATE INDEX temp.scan_by_image ON scan (image);
CREATE INDEX temp.scan_by_change ON scan (change);
"""


@dataclass(frozen=True, slots=True)
class ImageChanges:
    """Number of images by kind of change since the last import."""

    found: int
    same: int
    renamed: int
    changed: int
    new: int
    removed: int


class ListingDiff:
    """Comparison of one listing with the manifest."""

    def __init__(self, manifest: Manifest) -> None:
        """Start with an empty listing."""
        self._manifest = manifest
        self._sql = manifest.connection
        self._sql.create_function("spread", 1, _hash_path, deterministic=True)
        self._sql.create_function("base_name", 1, _get_base_name, deterministic=True)
        self._sql.executescript(f"DROP TABLE IF EXISTS temp.scan; {_SCAN}")

    def add_entries(self, entries: Iterable[SourceEntry], limit: int | None) -> int:
        """Store the listing, or a reproducible sample of it from all folders.

        Args:
            entries: the listing of the source.
            limit: size of the sample, or `None` for all entries.

        Returns:
            The number of stored entries.

        Raises:
            SourceError: a path is listed twice with different classes.
        """
        self._sql.execute("BEGIN")
        try:
            remaining = iter(entries)
            while batch := list(islice(remaining, _INSERTED_ROWS)):
                self._insert(batch)
        finally:
            self._sql.execute("COMMIT")
        if limit is not None:
            self._sql.execute(
                "DELETE FROM scan WHERE path NOT IN (SELECT path FROM scan ORDER BY spread(path) LIMIT ?)", (limit,)
            )
        return self._count("1")

    def needs_hashes(self) -> bool:
        """Return whether the manifest has content hashes that new files can be compared with."""
        return self._sql.execute("SELECT 1 FROM images WHERE hash IS NOT NULL LIMIT 1").fetchone() is not None

    def match_unchanged(self) -> None:
        """Find unchanged files by path, length and stamp."""
        self._sql.execute(
            "UPDATE scan SET change = 'same', image = i.id FROM images i WHERE i.path = scan.path "
            "AND i.bytes = scan.bytes AND i.stamp = scan.stamp AND i.width IS NOT NULL AND scan.problem IS NULL"
        )
        # A file that was never read has no hash to compare with: it is decoded without being hashed first.
        self._sql.execute(
            "UPDATE scan SET change = 'changed', image = i.id FROM images i WHERE i.path = scan.path "
            "AND i.bytes = scan.bytes AND i.stamp = scan.stamp AND i.hash IS NULL AND scan.problem IS NULL"
        )

    def list_unmatched(self, chunk: int) -> Iterator[list[str]]:
        """Yield the paths of the files whose content must be compared, in chunks."""
        last = b""
        while True:
            query = "SELECT path FROM scan WHERE path > ? AND change IS NULL AND problem IS NULL ORDER BY path LIMIT ?"
            rows = [path for (path,) in self._sql.execute(query, (last, chunk))]
            if not rows:
                return
            last = rows[-1]
            yield [decode_path(path) for path in rows]

    def count_unmatched(self) -> int:
        """Return the number of files whose content must be compared."""
        return self._count("change IS NULL AND problem IS NULL")

    def set_hashes(self, hashes: Iterable[tuple[str, bytes | None]]) -> None:
        """Store the content hashes of files; `None` for unreadable ones."""
        self._sql.executemany(
            "UPDATE scan SET hash = ? WHERE path = ?", [(digest, encode_path(path)) for path, digest in hashes]
        )

    def match_contents(self) -> None:
        """Classify the other files by content hash: unchanged, renamed, changed or new."""
        self._sql.execute(
            "UPDATE scan SET change = 'same', image = i.id FROM images i "
            "WHERE scan.change IS NULL AND i.path = scan.path AND i.hash = scan.hash AND i.width IS NOT NULL"
        )
        self._match_renamed()
        self._sql.execute(
            "UPDATE scan SET change = 'changed', image = i.id FROM images i WHERE scan.change IS NULL "
            "AND i.path = scan.path AND NOT EXISTS (SELECT 1 FROM scan taken WHERE taken.image = i.id)"
        )
        self._sql.execute("UPDATE scan SET change = 'new' WHERE change IS NULL")

    def keeps_known_images(self) -> bool:
        """Return whether at least one known image still exists unchanged; true if there are no known images."""
        kept = self._sql.execute("SELECT 1 FROM scan WHERE change IN ('same', 'renamed') LIMIT 1").fetchone()
        return kept is not None or self._manifest.count("ok") == 0

    def list_replaced(self) -> Iterator[str]:
        """Yield the paths at which the content of an image was replaced."""
        query = (
            "SELECT scan.path FROM scan JOIN images i ON i.id = scan.image "
            "WHERE change = 'changed' AND i.status = 'ok' AND scan.problem IS NULL ORDER BY scan.path"
        )
        yield from (decode_path(path) for (path,) in self._sql.execute(query))

    def apply(self) -> ImageChanges:
        """Write the changes to the manifest in one transaction, and return their numbers."""
        with self._manifest.transaction():
            changes = self._count_changes()
            self._manifest.set_complete(complete=False)
            self._vacate_paths()
            self._update_matched()
            self._sql.execute(
                "INSERT INTO images (path, bytes, stamp, status, reason, content_version, first_version) "
                "SELECT path, bytes, stamp, iif(problem IS NULL, 'pending', 'unreadable'), problem, ?1, ?1 "
                "FROM scan WHERE change = 'new' ORDER BY path",
                (self._manifest.version + 1,),
            )
            self._sql.execute(
                "UPDATE images SET split = s.split FROM scan s "
                "WHERE images.path = s.path AND images.split IS NOT s.split"
            )
        return changes

    # ---- implementation

    def _insert(self, entries: list[SourceEntry]) -> None:
        cursor = self._sql.executemany(
            "INSERT OR IGNORE INTO scan (path, bytes, stamp, split, class, problem, cells) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    encode_path(e.path),
                    e.bytes,
                    e.stamp,
                    e.split,
                    e.class_name,
                    e.problem,
                    json.dumps(e.cells) if e.cells else None,
                )
                for e in entries
            ],
        )
        if cursor.rowcount < len(entries):  # a path was listed before
            for entry in entries:
                self._require_same_class(entry)

    def _require_same_class(self, entry: SourceEntry) -> None:
        query = "SELECT class FROM scan WHERE path = ?"
        (known,) = self._sql.execute(query, (encode_path(entry.path),)).fetchone()
        if known != entry.class_name:
            raise SourceError(
                f"{to_printable(entry.path)} is listed twice with different classes, {known!r} and "
                f"{entry.class_name!r}.",
                advice="Keep one of the two lines.",
            )

    def _match_renamed(self) -> None:
        """Find images whose content is now at another path."""
        query = "SELECT path, hash FROM scan WHERE change IS NULL AND hash IN (SELECT hash FROM images) ORDER BY path"
        for path, digest in self._sql.execute(query).fetchall():
            row = self._sql.execute(
                "SELECT id FROM images i WHERE hash = ? AND width IS NOT NULL "
                "AND NOT EXISTS (SELECT 1 FROM scan taken WHERE taken.image = i.id) "
                "ORDER BY base_name(i.path) = base_name(?) DESC, status, id LIMIT 1",
                (digest, path),
            ).fetchone()
            if row:
                self._sql.execute("UPDATE scan SET change = 'renamed', image = ? WHERE path = ?", (row[0], path))

    def _vacate_paths(self) -> None:
        """Mark removed images, and clear every path that another image will have."""
        self._sql.execute(
            "UPDATE images SET status = 'removed' WHERE NOT EXISTS (SELECT 1 FROM scan WHERE scan.image = images.id)"
        )
        self._sql.execute(
            "UPDATE images SET path = NULL WHERE id IN (SELECT image FROM scan WHERE change = 'renamed') "
            "OR (status = 'removed' AND path IN (SELECT path FROM scan))"
        )

    def _update_matched(self) -> None:
        self._sql.execute(
            "UPDATE images SET path = scan.path, bytes = scan.bytes, stamp = scan.stamp, status = 'ok' "
            "FROM scan WHERE scan.image = images.id AND scan.change IN ('same', 'renamed')"
        )
        # The old hash is kept until the new content is decoded; without a width the row does not count as valid.
        self._sql.execute(
            "UPDATE images SET bytes = scan.bytes, stamp = scan.stamp, width = NULL, height = NULL, "
            "status = iif(scan.problem IS NULL, 'pending', 'unreadable'), reason = scan.problem "
            "FROM scan WHERE scan.image = images.id AND scan.change = 'changed'"
        )
        for table in ("stored_pixels", PHOTO_TABLE):
            self._sql.execute(f"DELETE FROM {table} WHERE id IN (SELECT image FROM scan WHERE change = 'changed')")

    def _count_changes(self) -> ImageChanges:
        removed = self._sql.execute(
            "SELECT COUNT(*) FROM images WHERE status != 'removed' "
            "AND NOT EXISTS (SELECT 1 FROM scan WHERE scan.image = images.id)"
        ).fetchone()[0]
        changed = self._sql.execute(
            "SELECT COUNT(*) FROM scan JOIN images i ON i.id = scan.image WHERE change = 'changed' AND i.status = 'ok'"
        ).fetchone()[0]
        return ImageChanges(
            found=self._count("1"),
            same=self._count("change = 'same'"),
            renamed=self._count("change = 'renamed'"),
            changed=int(changed),
            new=self._count("change = 'new'"),
            removed=int(removed),
        )

    def _count(self, where: str) -> int:
        return int(self._sql.execute(f"SELECT COUNT(*) FROM scan WHERE {where}").fetchone()[0])


def _hash_path(path: bytes) -> bytes:
    """Return a hash for sorting paths in a mixed order of folders that is the same on every computer."""
    return hashlib.blake2b(path, digest_size=8).digest()


def _get_base_name(path: bytes | None) -> bytes | None:
    return path and path.rsplit(b"/", 1)[-1]
