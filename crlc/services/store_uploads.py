"""Uploads: files that arrive one by one, are stored in the workspace with their folders, and are imported from there.

Until an upload is finished, its files are in a hidden folder, so that a part of it is never imported.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO

from crlc.errors import DiskFullError, NotFoundError, UsageError, explain_disk_full
from crlc.export.destinations import make_safe_file_name
from crlc.formatting import format_bytes
from crlc.workspace import Workspace

UPLOADS_FOLDER = "uploads"
_ARCHIVE_SUFFIX = ".zip"
_PARTIAL_PREFIX = ".partial-"
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")
_MAX_PATH_PARTS = 32
_ABANDONED_SECONDS = 24 * 3600


def begin_upload(workspace: Workspace, size: int) -> str:
    """Create the folder of a new upload, and return the id of the upload. Uploads abandoned for a day are deleted.

    Args:
        workspace: receives the files.
        size: number of bytes of all files.

    Raises:
        DiskFullError: there is not enough disk space.
    """
    root = workspace.root / UPLOADS_FOLDER
    with explain_disk_full(workspace.root):
        root.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(root)
        free = shutil.disk_usage(root).free
        if size > free:
            raise DiskFullError(
                f"The files have {format_bytes(size)}, but the disk that holds {workspace.root} has only "
                f"{format_bytes(free)} left.",
                advice="Free some space, or import the folder by its path: then nothing is copied.",
            )
        upload_id = secrets.token_hex(16)
        _get_partial_folder(workspace, upload_id).mkdir()
    return upload_id


@contextmanager
def open_uploaded_file(workspace: Workspace, upload_id: str, path: str) -> Iterator[IO[bytes]]:
    """Open a new file of an upload for writing; after an error, the file is deleted.

    Args:
        workspace: workspace of the upload.
        upload_id: the upload.
        path: relative path of the file, separated by slashes. It may come from anywhere: names that are not allowed
            are replaced, and the file is always inside the folder of the upload.

    Raises:
        NotFoundError: there is no such upload; it may have been cancelled.
        UsageError: the path has no file name, or too many folders.
        DiskFullError: there is not enough disk space.
    """
    partial = _require_upload(workspace, upload_id)
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not 1 <= len(parts) <= _MAX_PATH_PARTS:
        raise UsageError(f"path with {len(parts)} parts is not allowed: it must have from 1 to {_MAX_PATH_PARTS}.")
    *folders, name = map(make_safe_file_name, parts)
    with explain_disk_full(workspace.root):
        folder = partial.joinpath(*folders)
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(partial)  # the upload is not abandoned
        target, file = _create_file(folder, name)
        try:
            with file:
                yield file
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def finish_upload(workspace: Workspace, upload_id: str, name: str = "") -> list[Path]:
    """Move the files of an upload to their final place, where nothing is overwritten.

    Args:
        workspace: workspace of the upload.
        upload_id: the upload.
        name: name of the folder for the images; empty for the date.

    Returns:
        The sources to import: each archive that was not inside a folder, and the folder of all other files.

    Raises:
        NotFoundError: there is no such upload.
    """
    partial, root = _require_upload(workspace, upload_id), workspace.root / UPLOADS_FOLDER
    archives = [file for file in sorted(partial.iterdir()) if file.name.lower().endswith(_ARCHIVE_SUFFIX)]
    sources = [file.rename(_find_unused(root, file.name)) for file in archives]
    if any(partial.iterdir()):
        name = make_safe_file_name(name) if name else f"upload-{datetime.now().astimezone():%Y-%m-%d-%H%M}"
        sources.append(partial.rename(_find_unused(root, name)))
    else:
        partial.rmdir()
    return sources


def cancel_upload(workspace: Workspace, upload_id: str) -> None:
    """Delete the files of an upload that is not finished; nothing happens if there is no such upload."""
    with suppress(NotFoundError):
        shutil.rmtree(_require_upload(workspace, upload_id), ignore_errors=True)


def _get_partial_folder(workspace: Workspace, upload_id: str) -> Path:
    return workspace.root / UPLOADS_FOLDER / f"{_PARTIAL_PREFIX}{upload_id}"


def _require_upload(workspace: Workspace, upload_id: str) -> Path:
    folder = _get_partial_folder(workspace, upload_id)
    if not _UPLOAD_ID.fullmatch(upload_id) or not folder.is_dir():
        raise NotFoundError("This upload does not exist: it is finished or was cancelled.", advice="Start it again.")
    return folder


def _delete_abandoned(root: Path) -> None:
    for folder in root.glob(f"{_PARTIAL_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _create_file(folder: Path, name: str) -> tuple[Path, IO[bytes]]:
    """Create a file that does not exist; several files of an upload arrive at the same time."""
    while True:
        path = _find_unused(folder, name)
        with suppress(FileExistsError):
            return path, path.open("xb")


def _find_unused(folder: Path, name: str) -> Path:
    """Return the path of a file or folder that does not exist: `a.jpg`, `a-2.jpg`."""
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    names = (name if number == 1 else f"{stem}-{number}{suffix}" for number in count(1))
    return next(folder / one for one in names if not (folder / one).exists())
