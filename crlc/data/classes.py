"""Classes: ground truth that came with the data. For reporting only, never for training."""

from __future__ import annotations

import os
from pathlib import Path

from crlc.data.manifest import Manifest
from crlc.data.sources import Source
from crlc.data.sources.table import ImageTable, spellings
from crlc.errors import SourceError, UsageError
from crlc.names import path_from_bytes, path_to_bytes, printable

WITHOUT_TABLE = ("auto", "folders", "none")
_SUBSETS = Path(__file__).with_name("subsets")


def check_classes_option(option: str, source: Source) -> None:
    """Refuse, before any work, a choice of classes that cannot succeed.

    Raises:
        UsageError: it does not fit the source.
        SourceError: the CSV file gives no classes.
    """
    if option in ("auto", "none"):
        return
    if option == "folders":
        if not source.has_folders:
            raise UsageError(f"classes='folders' does not fit {source.location}: its images do not lie in folders.")
        return
    if not os.path.isfile(option):
        raise UsageError(
            f"classes={option!r} is neither auto, folders or none, nor a CSV file that exists. "
            "(It may be remembered from an earlier import: --classes auto forgets it.)"
        )
    ImageTable(option).require_classes()


def require_classes_fit(manifest: Manifest, source: Source, option: str) -> None:
    """Refuse, before anything is changed, a CSV file that names none of the listed files.

    Raises:
        SourceError: it names none.
    """
    if option in WITHOUT_TABLE:
        return
    table = ImageTable(option)
    listed = "SELECT 1 FROM scan WHERE path = ?"
    for row in table.rows():
        for path in _paths_meant(row.path, source, table):
            if row.class_name and manifest.connection.execute(listed, (path_to_bytes(path),)).fetchone():
                return
    raise SourceError(
        f"None of the paths with a class in {table.location} is a file of {source.location}. "
        "Paths must be relative to the folder, or absolute."
    )


def assign_classes(manifest: Manifest, source: Source, option: str) -> int | None:
    """Give every image its class, or none, in one transaction. Needs the listing of this import.

    Returns:
        For a CSV file, how many of its lines name no image of the data set; otherwise `None`.
    """
    sql = manifest.connection
    with manifest.transaction():
        sql.execute("UPDATE images SET class = NULL WHERE class IS NOT NULL")
        if option == "none":
            return None
        if option not in WITHOUT_TABLE:
            return _from_table(manifest, source, ImageTable(option))
        sql.execute("UPDATE images SET class = s.class FROM scan s WHERE images.path = s.path AND s.class IS NOT NULL")
        if source.has_folders:
            _from_folders(manifest, forced=option == "folders")
    return None


def read_subset(given: str) -> frozenset[str]:
    """The class folders of a named ImageNet subset, or of a text file with one name a line.

    Raises:
        UsageError: there is neither.
    """
    known = {file.stem: file for file in sorted(_SUBSETS.glob("*.txt"))}
    file = known.get(given, Path(given))
    try:
        names = frozenset(file.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"subset={given!r} is neither one of {', '.join(known)} nor a readable text file.") from None
    if not names:
        raise UsageError(f"subset={given!r} names no class folder.")
    return names


def _from_folders(manifest: Manifest, *, forced: bool) -> None:
    """The folder that holds an image is its class, when the layout is one folder per class."""
    sql = manifest.connection
    sql.create_function("folder", 1, _folder, deterministic=True)
    query = "SELECT folder(path), split IS NOT NULL, COUNT(*) FROM images WHERE status = 'ok' GROUP BY 1, 2"
    found = [(path_from_bytes(folder), bool(in_split), count) for folder, in_split, count in sql.execute(query)]
    classes = {folder: class_of_folder(folder, in_split=in_split) for folder, in_split, _ in found}
    if not forced and not is_folder_per_class({folder: count for folder, _, count in found}, classes):
        return
    sql.execute("CREATE TEMP TABLE class_folders (class TEXT, folder BLOB PRIMARY KEY) WITHOUT ROWID")
    rows = [(name, path_to_bytes(folder)) for folder, name in classes.items()]
    sql.executemany("INSERT INTO class_folders VALUES (?, ?)", rows)
    sql.execute("UPDATE images SET class = c.class FROM class_folders c WHERE folder(images.path) = c.folder")
    sql.execute("DROP TABLE class_folders")


def is_folder_per_class(images_in_folder: dict[str, int], classes: dict[str, str | None]) -> bool:
    """Whether folders look like classes rather than like somebody's way to file pictures.

    They do when there are at least two, no image lies at the top, no folder with images lies inside
    another one with images, and folders hold two images or more on average.
    """
    folders = set(images_in_folder)
    if "" in folders or len(set(classes.values())) < 2:  # noqa: PLR2004
        return False
    if any(parent in folders for folder in folders for parent in _parents(folder)):
        return False
    return sum(images_in_folder.values()) >= 2 * len(folders)


def class_of_folder(folder: str, *, in_split: bool) -> str | None:
    """The class that a folder stands for: its path, without the split's own folder at the top."""
    name = folder.partition("/")[2] if in_split else folder
    return printable(name) or None


def _parents(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _folder(path: bytes | None) -> bytes | None:
    return path and path.rpartition(b"/")[0]


def _from_table(manifest: Manifest, source: Source, table: ImageTable) -> int:
    unmatched = 0
    for row in table.rows():
        if row.class_name is None:
            continue
        for path in _paths_meant(row.path, source, table):
            values = (row.class_name, path_to_bytes(path))
            if manifest.connection.execute("UPDATE images SET class = ? WHERE path = ?", values).rowcount:
                break
        else:
            unmatched += 1
    return unmatched


def _paths_meant(given: str, source: Source, table: ImageTable) -> list[str]:
    """The names inside the source that a path in the CSV may stand for."""
    readings: list[str] = []
    for text in spellings(given):
        readings.append(text)
        absolute = os.path.join(os.path.dirname(table.location), text)
        readings.append(os.path.relpath(absolute, source.location).replace(os.sep, "/"))
    return readings
