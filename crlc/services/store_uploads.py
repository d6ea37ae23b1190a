"""Storing of uploaded files in the workspace, from where they are imported."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import IO

from crlc.errors import explain_disk_full
from crlc.export.destinations import make_safe_file_name
from crlc.workspace import Workspace

UPLOADS_FOLDER = "uploads"
_ARCHIVE_SUFFIX = ".zip"


def store_uploads(workspace: Workspace, files: Iterable[tuple[str, IO[bytes]]]) -> list[Path]:
    """Copy uploaded files to the workspace.

    Args:
        workspace: the workspace; the files are copied to new files and folders in its folder `uploads`.
        files: name and content of each file: images, which are stored together in one folder, and zip archives.

    Returns:
        The sources to import: each archive, and the folder of the images.

    Raises:
        DiskFullError: there is not enough disk space; nothing of the file that did not fit is left.
    """
    root = workspace.root / UPLOADS_FOLDER
    root.mkdir(parents=True, exist_ok=True)
    sources = []
    folder: Path | None = None
    with explain_disk_full(workspace.root):
        for given, content in files:
            name = make_safe_file_name(given)
            if name.lower().endswith(_ARCHIVE_SUFFIX):
                sources.append(_write(content, _find_unused(root, name)))
                continue
            if folder is None:
                folder = _find_unused(root, f"upload-{datetime.now().astimezone():%Y-%m-%d-%H%M}")
                folder.mkdir()
                sources.append(folder)
            _write(content, _find_unused(folder, name))
    return sources


def _write(content: IO[bytes], path: Path) -> Path:
    try:
        with path.open("xb") as target:
            shutil.copyfileobj(content, target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _find_unused(folder: Path, name: str) -> Path:
    """Return the path of a file or folder that does not exist: `a.jpg`, `a-2.jpg`."""
    stem, suffix = Path(name).stem, Path(name).suffix
    names = (name if number == 1 else f"{stem}-{number}{suffix}" for number in count(1))
    return next(folder / one for one in names if not (folder / one).exists())
