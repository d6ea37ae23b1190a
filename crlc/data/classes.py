"""Ground-truth classes that come with the data. They are used for metrics only, never for training."""

from __future__ import annotations

import os
from pathlib import Path

from crlc.data.date_folders import are_date_folders
from crlc.data.manifest import Manifest
from crlc.data.sources import Source
from crlc.data.sources.table import ImageTable, list_spellings
from crlc.errors import SourceError, UsageError
from crlc.paths import decode_path, encode_path, to_printable

OPTIONS_WITHOUT_CSV = ("auto", "folders", "none")
_SUBSETS = Path(__file__).with_name("subsets")


def check_classes_option(option: str, source: Source) -> None:
    """Check the option `classes` before the import starts.

    Args:
        option: value of the option `classes`.
        source: the source of the images.

    Raises:
        UsageError: the option is not allowed for this source.
        SourceError: the CSV file has no classes.
    """
    if option in ("auto", "none"):
        return
    if option == "folders":
        if not source.has_folders:
            raise UsageError(f"classes='folders' is not allowed for {source.location}: its images are not in folders.")
        return
    if not os.path.isfile(option):
        raise UsageError(
            f"classes={option!r} is neither auto, folders or none, nor a CSV file that exists.",
            advice="If an earlier import stored this value, import once with classes='auto' to replace it.",
            parameters=("classes",),
        )
    ImageTable(option).require_classes()


def require_classes_fit(manifest: Manifest, source: Source, option: str) -> None:
    """Check that a CSV file of classes names at least one listed file. Call it before the manifest changes.

    Args:
        manifest: manifest with the listing of this import.
        source: the source of the images.
        option: value of the option `classes`.

    Raises:
        SourceError: the CSV file names none of the files.
    """
    if option in OPTIONS_WITHOUT_CSV:
        return
    table = ImageTable(option)
    listed = "SELECT 1 FROM scan WHERE path = ?"
    for row in table.read_rows():
        for path in _list_possible_paths(row.path, source, table):
            if row.class_name and manifest.connection.execute(listed, (encode_path(path),)).fetchone():
                return
    raise SourceError(
        f"None of the paths with a class in {table.location} is a file of {source.location}.",
        advice="Use paths that are absolute or relative to the folder.",
    )


def assign_classes(manifest: Manifest, source: Source, option: str) -> int | None:
    """Assign every image its class, or `None`, in one transaction.

    Args:
        manifest: manifest with the listing of this import.
        source: the source of the images.
        option: value of the option `classes`.

    Returns:
        For a CSV file, the number of its lines that name no image of the dataset; otherwise `None`.
    """
    sql = manifest.connection
    with manifest.transaction():
        sql.execute("UPDATE images SET class = NULL WHERE class IS NOT NULL")
        if option == "none":
            return None
        if option not in OPTIONS_WITHOUT_CSV:
            return _assign_from_table(manifest, source, ImageTable(option))
        sql.execute("UPDATE images SET class = s.class FROM scan s WHERE images.path = s.path AND s.class IS NOT NULL")
        if source.has_folders:
            _assign_from_folders(manifest, forced=option == "folders")
    return None


def read_subset(given: str) -> frozenset[str]:
    """Return the class folders of a named ImageNet subset, or of a text file with one name per line.

    Raises:
        UsageError: `given` is neither a known subset nor a readable file with names.
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


def _assign_from_folders(manifest: Manifest, *, forced: bool) -> None:
    """Use folder names as classes if there is one folder per class, or if the user requested it."""
    sql = manifest.connection
    sql.create_function("folder", 1, _get_folder, deterministic=True)
    query = (
        "SELECT folder(path), split IS NOT NULL, COUNT(*) FROM images WHERE status IN ('ok', 'pending') GROUP BY 1, 2"
    )
    found = [(decode_path(folder), bool(in_split), count) for folder, in_split, count in sql.execute(query)]
    classes = {folder: folder_to_class(folder, in_split=in_split) for folder, in_split, _ in found}
    if not forced and not is_folder_per_class({folder: count for folder, _, count in found}, classes):
        return
    sql.execute("CREATE TEMP TABLE class_folders (class TEXT, folder BLOB PRIMARY KEY) WITHOUT ROWID")
    rows = [(name, encode_path(folder)) for folder, name in classes.items()]
    sql.executemany("INSERT INTO class_folders VALUES (?, ?)", rows)
    sql.execute("UPDATE images SET class = c.class FROM class_folders c WHERE folder(images.path) = c.folder")
    sql.execute("DROP TABLE class_folders")


def is_folder_per_class(images_in_folder: dict[str, int], classes: dict[str, str | None]) -> bool:
    """Return whether the folders are probably classes, rather than an arbitrary way to organise photos.

    Folders are probably classes if there are at least two, no image is at the top level, no folder with images is
    inside another one with images, the folders have two or more images on average, and their names are not dates.

    Args:
        images_in_folder: number of images by folder.
        classes: class by folder.
    """
    folders = set(images_in_folder)
    if "" in folders or len(set(classes.values())) < 2:  # noqa: PLR2004
        return False
    if any(parent in folders for folder in folders for parent in _list_parents(folder)):
        return False
    if are_date_folders(name for name in classes.values() if name is not None):
        return False
    return sum(images_in_folder.values()) >= 2 * len(folders)


def folder_to_class(folder: str, *, in_split: bool) -> str | None:
    """Return the class of a folder: its path, without the top folder if that is a split."""
    name = folder.partition("/")[2] if in_split else folder
    return to_printable(name) or None


def _list_parents(folder: str) -> list[str]:
    parts = folder.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _get_folder(path: bytes | None) -> bytes | None:
    return path and path.rpartition(b"/")[0]


def _assign_from_table(manifest: Manifest, source: Source, table: ImageTable) -> int:
    unmatched = 0
    for row in table.read_rows():
        if row.class_name is None:
            continue
        for path in _list_possible_paths(row.path, source, table):
            values = (row.class_name, encode_path(path))
            if manifest.connection.execute("UPDATE images SET class = ? WHERE path = ?", values).rowcount:
                break
        else:
            unmatched += 1
    return unmatched


def _list_possible_paths(given: str, source: Source, table: ImageTable) -> list[str]:
    """Return the possible paths inside the source for a path in the CSV file."""
    readings: list[str] = []
    for text in list_spellings(given):
        readings.append(text)
        absolute = os.path.join(os.path.dirname(table.location), text)
        readings.append(os.path.relpath(absolute, source.location).replace(os.sep, "/"))
    return readings
