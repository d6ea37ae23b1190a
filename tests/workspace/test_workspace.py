"""Workspace: default folder, names of datasets, relinking, readers during an import."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from crlc.errors import NotFoundError, SourceError, UsageError
from crlc.progress import Progress
from crlc.workspace import Workspace, get_default_workspace
from tests.fixtures.images import make_image, save_images


def test_workspace_default_folder_can_be_set_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CRLC_WORKSPACE", str(tmp_path / "mine"))
    assert Workspace().root == tmp_path / "mine"
    monkeypatch.delenv("CRLC_WORKSPACE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert get_default_workspace().name == "crlc-studio"


def test_workspace_must_not_be_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from crlc.cli.main import main

    (tmp_path / "file").touch()
    assert main(["datasets", "--workspace", str(tmp_path / "file")]) == 2
    assert "--workspace" in capsys.readouterr().err


def test_list_dataset_names_creates_nothing(workspace: Workspace):
    assert workspace.list_dataset_names() == []
    assert not workspace.root.exists()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("My Photos!", "my-photos"),
        ("größe 2024", "größe-2024"),
        ("a.b_c", "a.b_c"),
        ("---", "images"),
        ("x" * 90, "x" * 64),
    ],
)
def test_import_derives_the_name_from_the_source(workspace: Workspace, tmp_path: Path, folder: str, name: str):
    save_images(tmp_path / "sources" / folder, 1)
    dataset, _ = workspace.import_dataset(str(tmp_path / "sources" / folder))
    assert dataset.name == name


def test_open_dataset_suggests_a_similar_name(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "flowers", 1)
    workspace.import_dataset(str(tmp_path / "flowers"))
    with pytest.raises(NotFoundError, match="'flowers'"):
        workspace.open_dataset("flower")


def test_import_after_removal_creates_a_new_uid(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 1)
    first = workspace.import_dataset(str(tmp_path / "set"))[0].info.uid
    workspace.remove_dataset("set")
    assert workspace.import_dataset(str(tmp_path / "set"))[0].info.uid != first


# ---- relinking


@pytest.fixture
def moved(workspace: Workspace, tmp_path: Path) -> Path:
    """Import the dataset `set`, move its originals, and return their new folder."""
    save_images(tmp_path / "set", 10)
    workspace.import_dataset(str(tmp_path / "set"))
    (tmp_path / "set").rename(tmp_path / "moved")
    return tmp_path / "moved"


def test_relink_finds_moved_originals(workspace: Workspace, moved: Path):
    with pytest.raises(SourceError, match="set does not exist"):
        workspace.open_dataset("set").source.read("00003.png")
    report = workspace.relink_dataset("set", str(moved))
    assert (report.found, report.expected) == (10, 10)
    assert workspace.open_dataset("set").source.read("00003.png") == (moved / "00003.png").read_bytes()
    _, outcome = workspace.import_dataset(str(moved), name="set")
    assert outcome.changes.same == 10


def test_relink_accepts_a_copy_with_new_modification_times(workspace: Workspace, moved: Path, tmp_path: Path):
    shutil.copytree(moved, tmp_path / "copied", copy_function=shutil.copyfile)
    workspace.relink_dataset("set", str(tmp_path / "copied"))
    _, outcome = workspace.import_dataset(str(tmp_path / "copied"), name="set")
    assert (outcome.changes.same, outcome.changes.changed) == (10, 0)


def test_relink_refuses_a_source_with_other_images(workspace: Workspace, moved: Path, tmp_path: Path):
    before = workspace.open_dataset("set").info
    save_images(tmp_path / "other", 3)
    with pytest.raises(SourceError, match="3 of the 10 images"):
        workspace.relink_dataset("set", str(tmp_path / "other"))
    shutil.copytree(moved, tmp_path / "swapped")
    for file in (tmp_path / "swapped").iterdir():
        content = bytearray(file.read_bytes())
        content[-20] ^= 1  # same name, same size, other content
        file.write_bytes(content)
    with pytest.raises(SourceError, match="swapped"):
        workspace.relink_dataset("set", str(tmp_path / "swapped"))
    np.savez(tmp_path / "set.npz", images=np.zeros((10, 9, 9), np.uint8))
    with pytest.raises(SourceError, match=r"set\.npz is not allowed: its kind is npz, .* folder"):
        workspace.relink_dataset("set", str(tmp_path / "set.npz"))
    assert workspace.open_dataset("set").info == before


def test_readers_see_the_old_state_during_an_import(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    seen = []

    def count_images(progress) -> None:
        if progress.stage == "Listing":
            seen.append(len(workspace.open_dataset("set").open_pixels()))

    make_image(50).save(tmp_path / "set" / "new.png")
    workspace.import_dataset(str(tmp_path / "set"), report=count_images)
    assert seen == [3]
    assert len(dataset.open_pixels()) == 4
    assert sqlite3.connect(dataset.folder / "manifest.sqlite").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_cancelled_import_leaves_no_dataset_without_images(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 3)

    class CancelledError(Exception):
        """Raised by the caller of the import, as the app does."""

    def cancel(_: Progress) -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        workspace.import_dataset(str(tmp_path / "set"), report=cancel)
    assert workspace.list_dataset_names() == []
    assert workspace.import_dataset(str(tmp_path / "set"))[1].readable == 3


@pytest.mark.parametrize("name", ["datasets", "runs", "locks"])
@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to(path)], ids=["file", "link to itself"])
def test_workspace_refuses_a_file_in_the_place_of_its_folders(tmp_path: Path, name: str, make):
    make(tmp_path / name)
    with pytest.raises(UsageError, match=f"{tmp_path / name} is not a folder"):
        Workspace(tmp_path)
