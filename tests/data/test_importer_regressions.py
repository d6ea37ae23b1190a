"""Regression tests of the import: identity of files, stored options, unusual text, names and paths."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.data.pixel_writer import get_pixel_file
from crlc.data.sources import UnreadableError
from crlc.data.sources.opening import open_source
from crlc.data.thumbnails import make_thumbnail
from crlc.errors import SourceError
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.broken_files import PNG
from tests.fixtures.images import make_image, save_images


def summarize(workspace: Workspace, name: str = "set"):
    return workspace.open_dataset(name).summarize()


def test_import_notices_a_file_replaced_by_one_of_equal_length_and_time(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(4):
        make_image(number).save(folder / f"{number}.bmp")
        os.utime(folder / f"{number}.bmp", ns=(10**18, 10**18))
    workspace.import_dataset(str(folder))
    (folder / "1.bmp").replace(folder / "0.bmp")
    changes = workspace.import_dataset(str(folder))[1].changes
    assert (changes.renamed, changes.removed, changes.same) == (1, 1, 2)


def test_import_does_not_run_code_of_the_current_folder(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    save_images(folder, 100)
    for module in ("PIL", "pickle", "crlc"):
        (folder / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write('{module}')\n")
    script = f"import sys; sys.path[0] = {str(ROOT)!r}; from crlc.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "import", ".", "--workers", "2", "--workspace", str(workspace.root)]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert not (tmp_path / "ran").exists()
    assert summarize(workspace).readable == 100


def test_import_accepts_a_class_folder_named_train(workspace: Workspace, tmp_path: Path):
    for number, name in enumerate(("bus", "car", "train")):
        save_images(tmp_path / "set" / name, 3, first_seed=10 * number)
    workspace.import_dataset(str(tmp_path / "set"))
    assert summarize(workspace).classes == {"bus": 3, "car": 3, "train": 3}


@pytest.mark.parametrize("as_source", [True, False])
def test_import_reads_a_csv_from_a_windows_spreadsheet(workspace: Workspace, tmp_path: Path, as_source: bool):
    save_images(tmp_path / "set", 2)
    (tmp_path / "set" / "00001.png").rename(tmp_path / "set" / "thé.png")
    table = tmp_path / "set" / "t.csv"
    table.write_bytes("path;class\r\n00000.png;Café\r\nthé.png;Café\r\n".encode("cp1252"))
    if as_source:
        workspace.import_dataset(str(table), name="set")
    else:
        workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(classes=str(table)))
    assert summarize(workspace).classes == {"Café": 2}


def test_import_decodes_byte_labels_of_an_npz(workspace: Workspace, tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((2, 9, 9), np.uint8), labels=np.array([b"cat", b"dog"]))
    workspace.import_dataset(str(tmp_path / "set.npz"))
    assert summarize(workspace).classes == {"cat": 1, "dog": 1}


def test_import_limit_can_be_removed_again(crlc, workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 9)
    crlc("import", tmp_path / "set", "--limit", 3)
    again = crlc("import", tmp_path / "set")
    assert summarize(workspace).readable == 3
    assert "limit=3" in again.out
    assert "--limit all" in again.out
    assert "limit=" not in crlc("import", tmp_path / "set", "--limit", "all").out
    assert summarize(workspace).readable == 9


def test_import_names_the_option_when_a_stored_csv_is_missing(crlc, tmp_path: Path):
    save_images(tmp_path / "set", 2)
    (tmp_path / "t.csv").write_text("path,class\n00000.png,cat\n")
    crlc("import", tmp_path / "set", "--classes", tmp_path / "t.csv")
    (tmp_path / "t.csv").unlink()
    assert "--classes" in crlc("import", tmp_path / "set").err
    assert crlc("import", tmp_path / "set", "--classes", "auto").code == 0


def test_import_with_a_csv_of_other_files_leaves_no_dataset(crlc, workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 2)
    (tmp_path / "t.csv").write_text("path,class\nother.png,cat\n")
    assert crlc("import", tmp_path / "set", "--classes", tmp_path / "t.csv").code == 1
    assert workspace.list_dataset_names() == []
    assert crlc("import", tmp_path / "set").code == 0


def test_import_of_another_size_keeps_the_first(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(3):
        make_image(number, 800, 600).save(folder / f"{number}.jpg")
    dataset, _ = workspace.import_dataset(str(folder), options=ImportOptions(size=32))
    before = get_pixel_file(dataset.folder, 32).read_bytes()
    changed = get_pixel_file(dataset.folder, 32).stat().st_mtime_ns
    workspace.import_dataset(str(folder), options=ImportOptions(size=96))
    assert get_pixel_file(dataset.folder, 32).read_bytes() == before
    assert get_pixel_file(dataset.folder, 32).stat().st_mtime_ns == changed
    alone, _ = Workspace(tmp_path / "other").import_dataset(str(folder), options=ImportOptions(size=96))
    assert get_pixel_file(alone.folder, 96).read_bytes() == get_pixel_file(dataset.folder, 96).read_bytes()


def test_import_refuses_a_folder_in_which_every_file_is_broken(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path / "set", 5)
    workspace.import_dataset(str(tmp_path / "set"))
    for file in files:
        file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(SourceError, match="Nothing was changed"):
        workspace.import_dataset(str(tmp_path / "set"))
    assert (summarize(workspace).readable, summarize(workspace).complete) == (5, True)


def test_import_accepts_a_folder_in_which_every_file_was_edited(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path / "set", 5)
    workspace.import_dataset(str(tmp_path / "set"))
    for number, file in enumerate(files):
        make_image(100 + number).save(file)
    changes = workspace.import_dataset(str(tmp_path / "set"))[1].changes
    assert (changes.changed, summarize(workspace).readable) == (5, 5)


def test_import_does_not_hash_images_that_were_never_decoded(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 5)
    (tmp_path / "set" / "broken.jpg").write_bytes(b"broken")
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with Manifest(dataset.folder) as manifest:  # as after an import that was interrupted after one image
        manifest.connection.execute("UPDATE images SET status = 'pending', hash = NULL, width = NULL WHERE id > 1")
    seen: list[Progress] = []
    workspace.import_dataset(str(tmp_path / "set"), report=seen.append)
    assert "Comparing" not in {progress.stage for progress in seen}
    assert summarize(workspace).readable == 5


def test_import_of_a_zip_with_a_damaged_member_reads_the_others(workspace: Workspace, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("bad.png", PNG)
        archive.writestr("good.png", PNG)
    content = bytearray((tmp_path / "set.zip").read_bytes())
    content[60:200] = b"\xff" * 140
    (tmp_path / "set.zip").write_bytes(content)
    workspace.import_dataset(str(tmp_path / "set.zip"))
    assert summarize(workspace).readable == 1


def test_npz_source_notices_a_replaced_file(workspace: Workspace, tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((200, 40, 40), np.uint8))
    dataset, _ = workspace.import_dataset(str(tmp_path / "set.npz"))
    source = open_source(str(tmp_path / "set.npz"), tmp_path)
    np.savez(tmp_path / "set.npz", images=np.zeros((5, 40, 40), np.uint8))
    with pytest.raises(UnreadableError, match="changed since it was opened"):
        source.read("000199")
    assert make_thumbnail(dataset, 200, 64).content  # made from the pixel store


# ---- names


def test_import_of_a_known_source_uses_the_dataset_of_another_name(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 2)
    workspace.import_dataset(str(tmp_path / "set"), name="mine")
    assert workspace.import_dataset(str(tmp_path / "set"))[0].name == "mine"


def test_import_gives_two_folders_of_one_name_two_names(workspace: Workspace, tmp_path: Path):
    for parent in ("a", "b"):
        save_images(tmp_path / parent / "set", 2)
        workspace.import_dataset(str(tmp_path / parent / "set"))
    assert workspace.list_dataset_names() == ["set", "set-2"]


@pytest.mark.parametrize("given", ["~nosuchuser/pictures", "x" * 5000, "a\0b"])
def test_import_refuses_impossible_paths(crlc, given: str):
    outcome = crlc("import", given)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "Unexpected" not in outcome.err
