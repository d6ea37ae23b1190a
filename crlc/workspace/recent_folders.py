"""Folders and files that were imported last, also those whose dataset was deleted."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TypedDict

from crlc.errors import CrlcError
from crlc.files import read_json, write_json
from crlc.workspace.workspace import Workspace

_FILE, _KIND, _VERSION = "recent-folders.json", "recent-folders", 1
_ADVICE = "Delete it: it is created again."
_MAX_FOLDERS = 8


class _FolderEntries(TypedDict):
    paths: list[str]


def list_recent_folders(workspace: Workspace) -> list[str]:
    """Return the existing folders and files that were imported last, the newest first."""
    try:
        paths = read_json(workspace.root / _FILE, _KIND, _VERSION, _ADVICE, _FolderEntries)["paths"]
    except CrlcError:
        return []
    return [path for path in paths if os.path.exists(path)]


def add_recent_folder(workspace: Workspace, path: str) -> None:
    """Add a folder or file to the list; a list that cannot be written is not worth an error."""
    paths = [path, *(one for one in list_recent_folders(workspace) if one != path)]
    with suppress(CrlcError, OSError):
        workspace.root.mkdir(parents=True, exist_ok=True)
        content = {"kind": _KIND, "version": _VERSION, "paths": paths[:_MAX_FOLDERS]}
        write_json(workspace.root / _FILE, content)
