"""Storing of uploaded files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from crlc.services.store_uploads import store_uploads
from crlc.workspace import Workspace


def test_store_uploads_keeps_archives_apart_and_overwrites_nothing(tmp_path: Path):
    workspace = Workspace(tmp_path / "workspace")
    given = [("a.jpg", b"1"), ("../a.jpg", b"2"), ("a.jpg", b"3"), ("set.ZIP", b"4")]
    folder, archive = store_uploads(workspace, ((name, BytesIO(content)) for name, content in given))
    assert folder.parent == archive.parent == workspace.root / "uploads"
    assert sorted(file.read_bytes() for file in folder.iterdir()) == [b"1", b"2", b"3"]
    assert {file.name for file in folder.iterdir()} >= {"a.jpg", "a-2.jpg"}
    assert (archive.name, archive.read_bytes()) == ("set.ZIP", b"4")
    (second,) = store_uploads(workspace, [("set.ZIP", BytesIO(b"5"))])
    assert (second.name, archive.read_bytes()) == ("set-2.ZIP", b"4")


def test_store_uploads_removes_a_file_that_could_not_be_written(tmp_path: Path):
    workspace = Workspace(tmp_path / "workspace")

    class BrokenStream(BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        store_uploads(workspace, [("set.zip", BrokenStream())])
    assert list((workspace.root / "uploads").iterdir()) == []
