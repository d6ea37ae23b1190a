"""Data sets by name: places, names, re-linking, thumbnails."""

from __future__ import annotations

import io
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.data.thumbnails import thumbnail
from crlc.errors import NotFoundError, SourceError
from crlc.files import write_json
from crlc.workspace import Workspace, default_workspace
from tests.pictures import picture, save_pictures


def test_the_place_of_the_workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CRLC_WORKSPACE", str(tmp_path / "mine"))
    assert Workspace().root == tmp_path / "mine"
    monkeypatch.delenv("CRLC_WORKSPACE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_workspace().name == "crlc-studio"


def test_looking_makes_nothing(workspace: Workspace):
    assert workspace.dataset_names() == []
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
def test_names_follow_the_source(workspace: Workspace, tmp_path: Path, folder: str, name: str):
    save_pictures(tmp_path / "sources" / folder, 1)
    dataset, _ = workspace.import_dataset(str(tmp_path / "sources" / folder))
    assert dataset.name == name


def test_a_near_name_is_offered(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "flowers", 1)
    workspace.import_dataset(str(tmp_path / "flowers"))
    with pytest.raises(NotFoundError, match="Did you mean 'flowers'"):
        workspace.dataset("flower")


def test_two_data_sets_of_one_source_have_different_identities(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 1)
    first = workspace.import_dataset(str(tmp_path / "set"))[0].info.uid
    workspace.remove("set")
    assert workspace.import_dataset(str(tmp_path / "set"))[0].info.uid != first


# ---- re-linking


@pytest.fixture
def moved(workspace: Workspace, tmp_path: Path) -> Path:
    """A data set `set` whose folder has moved; returns where to."""
    save_pictures(tmp_path / "set", 10)
    workspace.import_dataset(str(tmp_path / "set"))
    (tmp_path / "set").rename(tmp_path / "moved")
    return tmp_path / "moved"


def test_moved_originals_are_found_again(workspace: Workspace, moved: Path):
    with pytest.raises(SourceError, match="relink set NEW-PATH"):
        workspace.dataset("set").source.read("00003.png")
    report = workspace.relink("set", str(moved))
    assert (report.found, report.expected) == (10, 10)
    assert workspace.dataset("set").source.read("00003.png") == (moved / "00003.png").read_bytes()
    _, outcome = workspace.import_dataset(str(moved), name="set")
    assert outcome.fates.same == 10


def test_a_copy_with_new_times_is_still_the_same_images(workspace: Workspace, moved: Path, tmp_path: Path):
    shutil.copytree(moved, tmp_path / "copied", copy_function=shutil.copyfile)
    workspace.relink("set", str(tmp_path / "copied"))
    _, outcome = workspace.import_dataset(str(tmp_path / "copied"), name="set")
    assert (outcome.fates.same, outcome.fates.changed) == (10, 0)


def test_a_wrong_folder_is_refused(workspace: Workspace, moved: Path, tmp_path: Path):
    before = workspace.dataset("set").info
    save_pictures(tmp_path / "other", 3)
    with pytest.raises(SourceError, match="Only 3 of the 10 images"):
        workspace.relink("set", str(tmp_path / "other"))
    shutil.copytree(moved, tmp_path / "swapped")
    for file in (tmp_path / "swapped").iterdir():
        content = bytearray(file.read_bytes())
        content[-20] ^= 1  # same name, same length, another content
        file.write_bytes(content)
    with pytest.raises(SourceError, match="is another picture than the one imported"):
        workspace.relink("set", str(tmp_path / "swapped"))
    np.savez(tmp_path / "set.npz", images=np.zeros((10, 9, 9), np.uint8))
    with pytest.raises(SourceError, match="imported from a folder, but .* is a npz"):
        workspace.relink("set", str(tmp_path / "set.npz"))
    assert workspace.dataset("set").info == before


# ---- thumbnails


def opened(picture_of) -> Image.Image:
    return Image.open(io.BytesIO(picture_of.content))


def test_thumbnails_come_from_the_original_with_its_aspect(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 1, width=300, height=150)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    small = thumbnail(dataset, 1, 100)
    assert small.media_type == "image/jpeg"
    assert opened(small).size == (100, 50)


def test_tiny_images_are_shown_pixel_by_pixel(workspace: Workspace):
    dataset, _ = workspace.import_dataset("digits")
    small = thumbnail(dataset, 1, 100)
    assert small.media_type == "image/png"
    assert np.asarray(opened(small))[0, :, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]


def test_thumbnails_come_from_the_store_when_the_original_is_away(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 1, width=300, height=150)
    workspace.import_dataset(str(tmp_path / "set"))
    shutil.rmtree(tmp_path / "set")
    assert opened(thumbnail(workspace.dataset("set"), 1, 200)).size == (96, 96)
    with pytest.raises(NotFoundError, match="has no image 2"):
        thumbnail(workspace.dataset("set"), 2, 200)


# ---- small files


def test_a_json_file_is_replaced_whole_or_not_at_all(tmp_path: Path):
    file = tmp_path / "state.json"
    write_json(file, {"kind": "x", "value": 1})
    with pytest.raises(TypeError):
        write_json(file, {"kind": "x", "value": object()})
    assert '"value": 1' in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_reader_sees_one_state_while_another_process_imports(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 3)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    seen = []

    def look(progress) -> None:
        if progress.stage == "Listing":
            seen.append(len(workspace.dataset("set").pixels()))

    picture(50).save(tmp_path / "set" / "new.png")
    workspace.import_dataset(str(tmp_path / "set"), report=look)
    assert seen == [3]
    assert len(dataset.pixels()) == 4
    assert sqlite3.connect(dataset.folder / "manifest.sqlite").execute("PRAGMA journal_mode").fetchone() == ("wal",)
