"""Listing of a folder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crlc.data.sources.folder import FolderSource


def test_folder_that_cannot_be_listed_completely_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a/1.png", "b/2.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    scandir = os.scandir

    class EndingListing:
        """A listing that fails after its last entry, as that of an ended process in /proc."""

        def __init__(self, path: str) -> None:
            self.listing, self.path = scandir(path), path

        def __enter__(self) -> EndingListing:
            return self

        def __exit__(self, *_: object) -> None:
            self.listing.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            yield from self.listing
            if self.path.endswith("a"):
                raise OSError(errno.EINVAL, "Invalid argument")

    source = FolderSource(str(tmp_path))
    monkeypatch.setattr(os, "scandir", EndingListing)
    problems = {entry.path: entry.problem for entry in source.list_entries()}
    assert {path for path, problem in problems.items() if problem is None} == {"a/1.png", "b/2.png"}
    assert "Invalid argument" in (problems["a"] or "")
