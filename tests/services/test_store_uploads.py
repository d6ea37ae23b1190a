"""Storing of uploaded files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from crlc.errors import DiskFullError, NotFoundError, UsageError
from crlc.services.store_uploads import begin_upload, cancel_upload, finish_upload, open_uploaded_file
from crlc.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


def send(workspace: Workspace, upload: str, path: str, content: bytes = b"x") -> None:
    with open_uploaded_file(workspace, upload, path) as file:
        file.write(content)


def list_files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_upload_keeps_relative_paths_and_archives_apart(workspace: Workspace):
    upload = begin_upload(workspace, 100)
    send(workspace, upload, "cats/big/1.jpg", b"1")
    send(workspace, upload, "cats/big/1.jpg", b"2")  # the same name once more: both are kept
    send(workspace, upload, "é ' 2.jpg", b"3")
    send(workspace, upload, "set.ZIP", b"4")
    assert all(path.name.startswith(".") for path in (workspace.root / "uploads").iterdir())  # not imported half done
    archive, folder = finish_upload(workspace, upload, "holiday")
    assert folder == workspace.root / "uploads" / "holiday"
    assert list_files(folder) == {"cats/big/1.jpg": b"1", "cats/big/1-2.jpg": b"2", "é ' 2.jpg": b"3"}
    assert (archive.name, archive.read_bytes()) == ("set.ZIP", b"4")
    with pytest.raises(NotFoundError):
        finish_upload(workspace, upload, "holiday")


def test_upload_overwrites_nothing(workspace: Workspace):
    names = []
    for _ in range(2):
        upload = begin_upload(workspace, 1)
        send(workspace, upload, "a.jpg")
        names += [path.name for path in finish_upload(workspace, upload, "holiday")]
    assert names == ["holiday", "holiday-2"]


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a\\..\\b.jpg", "a/b.jpg"),
        ("./.hidden/a.jpg", "_hidden/a.jpg"),
        ("a/con.jpg", "a/_con.jpg"),
    ],
)
def test_uploaded_file_stays_in_the_folder_of_its_upload(workspace: Workspace, path: str, stored: str):
    upload = begin_upload(workspace, 1)
    send(workspace, upload, path)
    (folder,) = finish_upload(workspace, upload, "../name")
    assert list_files(workspace.root) == {f"uploads/{folder.name}/{stored}": b"x"}


@pytest.mark.parametrize("path", ["", "..", "/", "a/" * 40 + "b.jpg"])
def test_upload_refuses_paths_without_a_file_or_with_too_many_folders(workspace: Workspace, path: str):
    with pytest.raises(UsageError, match="parts"):
        send(workspace, begin_upload(workspace, 1), path)


@pytest.mark.parametrize("upload", ["", "..", "0" * 32, "0" * 31 + "/"])
def test_upload_refuses_unknown_ids(workspace: Workspace, upload: str):
    begin_upload(workspace, 1)
    with pytest.raises(NotFoundError):
        send(workspace, upload, "a.jpg")
    cancel_upload(workspace, upload)  # nothing to do


def test_failed_file_and_cancelled_upload_leave_nothing(workspace: Workspace):
    upload = begin_upload(workspace, 1)

    def lose_connection() -> None:
        with open_uploaded_file(workspace, upload, "a/b.jpg") as file:
            file.write(b"part")
            raise OSError("connection lost")

    with pytest.raises(OSError, match="connection lost"):
        lose_connection()
    assert list_files(workspace.root) == {}
    cancel_upload(workspace, upload)
    assert list((workspace.root / "uploads").iterdir()) == []


def test_begin_upload_checks_the_disk_and_deletes_abandoned_uploads(workspace: Workspace):
    with pytest.raises(DiskFullError, match="1,000,000,000 GB"):
        begin_upload(workspace, 10**18)
    old, recent = begin_upload(workspace, 1), begin_upload(workspace, 1)
    days_ago = time.time() - 2 * 24 * 3600
    os.utime(workspace.root / "uploads" / f".partial-{old}", (days_ago, days_ago))
    begin_upload(workspace, 1)
    send(workspace, recent, "a.jpg")
    with pytest.raises(NotFoundError):
        send(workspace, old, "a.jpg")
