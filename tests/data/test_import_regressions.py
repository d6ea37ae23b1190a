"""Imports that once went wrong: identity, remembered options, odd text, other people's folders."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crlc.config import ImportOptions
from crlc.data.manifest import FILE_NAME, Manifest
from crlc.data.pixels import pixel_file
from crlc.data.sources import UnreadableError
from crlc.data.sources.opening import open_source
from crlc.data.thumbnails import thumbnail
from crlc.errors import BusyError, SourceError
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.hostile import PNG
from tests.pictures import picture, save_pictures


def summary(workspace: Workspace, name: str = "set"):
    return workspace.dataset(name).summary()


def test_a_file_moved_over_another_of_equal_length_and_time_is_noticed(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(4):
        picture(number).save(folder / f"{number}.bmp")
        os.utime(folder / f"{number}.bmp", ns=(10**18, 10**18))
    workspace.import_dataset(str(folder))
    (folder / "1.bmp").replace(folder / "0.bmp")
    fates = workspace.import_dataset(str(folder))[1].fates
    assert (fates.renamed, fates.removed, fates.same) == (1, 1, 2)


def test_code_in_the_current_folder_is_not_run(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    save_pictures(folder, 100)
    for module in ("PIL", "pickle", "crlc"):
        (folder / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write('{module}')\n")
    script = f"import sys; sys.path[0] = {str(ROOT)!r}; from crlc.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "import", ".", "--workers", "2", "--workspace", str(workspace.root)]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert not (tmp_path / "ran").exists()
    assert summary(workspace).readable == 100


def test_a_class_folder_may_be_called_train(workspace: Workspace, tmp_path: Path):
    for number, name in enumerate(("bus", "car", "train")):
        save_pictures(tmp_path / "set" / name, 3, first_seed=10 * number)
    workspace.import_dataset(str(tmp_path / "set"))
    assert summary(workspace).classes == {"bus": 3, "car": 3, "train": 3}


@pytest.mark.parametrize("as_source", [True, False])
def test_a_csv_from_a_spreadsheet_on_windows(workspace: Workspace, tmp_path: Path, as_source: bool):
    save_pictures(tmp_path / "set", 2)
    (tmp_path / "set" / "00001.png").rename(tmp_path / "set" / "thé.png")
    table = tmp_path / "set" / "t.csv"
    table.write_bytes("path;class\r\n00000.png;Café\r\nthé.png;Café\r\n".encode("cp1252"))
    if as_source:
        workspace.import_dataset(str(table), name="set")
    else:
        workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(classes=str(table)))
    assert summary(workspace).classes == {"Café": 2}


def test_byte_labels_of_an_npz_are_text(workspace: Workspace, tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((2, 9, 9), np.uint8), labels=np.array([b"cat", b"dog"]))
    workspace.import_dataset(str(tmp_path / "set.npz"))
    assert summary(workspace).classes == {"cat": 1, "dog": 1}


def test_what_was_narrowed_can_be_widened_again(crlc, workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 9)
    crlc("import", tmp_path / "set", "--limit", 3)
    again = crlc("import", tmp_path / "set")
    assert summary(workspace).readable == 3
    assert "As in an earlier import: limit 3 (--limit all undoes it)." in again.out
    assert "earlier import" not in crlc("import", tmp_path / "set", "--limit", "all").out
    assert summary(workspace).readable == 9


def test_a_remembered_csv_that_is_gone_is_said_with_the_way_out(crlc, tmp_path: Path):
    save_pictures(tmp_path / "set", 2)
    (tmp_path / "t.csv").write_text("path,class\n00000.png,cat\n")
    crlc("import", tmp_path / "set", "--classes", tmp_path / "t.csv")
    (tmp_path / "t.csv").unlink()
    assert "--classes auto forgets it" in crlc("import", tmp_path / "set").err
    assert crlc("import", tmp_path / "set", "--classes", "auto").code == 0


def test_a_csv_of_classes_that_fits_nothing_leaves_nothing(crlc, workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 2)
    (tmp_path / "t.csv").write_text("path,class\nother.png,cat\n")
    assert crlc("import", tmp_path / "set", "--classes", tmp_path / "t.csv").code == 1
    assert workspace.dataset_names() == []
    assert crlc("import", tmp_path / "set").code == 0


def test_adding_a_size_leaves_the_other_as_it_was(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(3):
        picture(number, 800, 600).save(folder / f"{number}.jpg")
    dataset, _ = workspace.import_dataset(str(folder), options=ImportOptions(size=32))
    before = pixel_file(dataset.folder, 32).read_bytes()
    changed = pixel_file(dataset.folder, 32).stat().st_mtime_ns
    workspace.import_dataset(str(folder), options=ImportOptions(size=96))
    assert pixel_file(dataset.folder, 32).read_bytes() == before
    assert pixel_file(dataset.folder, 32).stat().st_mtime_ns == changed
    alone, _ = Workspace(tmp_path / "other").import_dataset(str(folder), options=ImportOptions(size=96))
    assert pixel_file(alone.folder, 96).read_bytes() == pixel_file(dataset.folder, 96).read_bytes()


def test_a_folder_in_which_every_file_broke_changes_nothing(workspace: Workspace, tmp_path: Path):
    files = save_pictures(tmp_path / "set", 5)
    workspace.import_dataset(str(tmp_path / "set"))
    for file in files:
        file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(SourceError, match="Nothing was changed"):
        workspace.import_dataset(str(tmp_path / "set"))
    assert (summary(workspace).readable, summary(workspace).complete) == (5, True)


def test_a_folder_in_which_every_file_was_edited_is_taken(workspace: Workspace, tmp_path: Path):
    files = save_pictures(tmp_path / "set", 5)
    workspace.import_dataset(str(tmp_path / "set"))
    for number, file in enumerate(files):
        picture(100 + number).save(file)
    fates = workspace.import_dataset(str(tmp_path / "set"))[1].fates
    assert (fates.changed, summary(workspace).readable) == (5, 5)


def test_what_was_not_decoded_yet_is_not_hashed_before(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 5)
    (tmp_path / "set" / "broken.jpg").write_bytes(b"broken")
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with Manifest(dataset.folder) as manifest:  # as if cut off after one image
        manifest.connection.execute("UPDATE images SET status = 'pending', hash = NULL, width = NULL WHERE id > 1")
    seen: list[Progress] = []
    workspace.import_dataset(str(tmp_path / "set"), report=seen.append)
    assert "Looking for changes" not in {progress.stage for progress in seen}
    assert summary(workspace).readable == 5


def test_a_damaged_member_of_an_lzma_zip_is_only_itself_unreadable(workspace: Workspace, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("bad.png", PNG)
        archive.writestr("good.png", PNG)
    content = bytearray((tmp_path / "set.zip").read_bytes())
    content[60:200] = b"\xff" * 140
    (tmp_path / "set.zip").write_bytes(content)
    workspace.import_dataset(str(tmp_path / "set.zip"))
    assert summary(workspace).readable == 1


def test_an_npz_that_is_replaced_while_open_is_noticed(workspace: Workspace, tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((200, 40, 40), np.uint8))
    dataset, _ = workspace.import_dataset(str(tmp_path / "set.npz"))
    source = open_source(str(tmp_path / "set.npz"), tmp_path)
    np.savez(tmp_path / "set.npz", images=np.zeros((5, 40, 40), np.uint8))
    with pytest.raises(UnreadableError, match="changed since it was opened"):
        source.read("000199")
    assert thumbnail(dataset, 200, 64).content  # from the store, then


# ---- trouble that is not damage


def test_a_manifest_in_use_is_not_called_damaged(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.data.manifest._PATIENCE_SECONDS", 0.1)
    save_pictures(tmp_path / "set", 2)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    other = sqlite3.connect(dataset.folder / FILE_NAME, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BusyError, match="in use by another process"):
        dataset.summary()
    other.close()
    assert dataset.summary().readable == 2


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX rights")
def test_somebody_elses_workspace_can_be_read(workspace: Workspace, tmp_path: Path, start_crlc):
    save_pictures(tmp_path / "set", 2)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    dataset.folder.chmod(0o555)
    without_rights = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    try:
        process = start_crlc("dataset", "set", "--json", before=without_rights)
        out, errors = process.communicate(timeout=60)
    finally:
        dataset.folder.chmod(0o755)
    assert process.returncode == 0, errors
    assert '"readable": 2' in out


# ---- names


def test_an_unfinished_import_under_another_name_is_carried_on(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 2)
    workspace.import_dataset(str(tmp_path / "set"), name="mine")
    assert workspace.import_dataset(str(tmp_path / "set"))[0].name == "mine"


def test_two_folders_of_one_name_get_two_names(workspace: Workspace, tmp_path: Path):
    for parent in ("a", "b"):
        save_pictures(tmp_path / parent / "set", 2)
        workspace.import_dataset(str(tmp_path / parent / "set"))
    assert workspace.dataset_names() == ["set", "set-2"]


def test_leftovers_of_a_removal_are_not_listed_and_go_with_the_next(workspace: Workspace, tmp_path: Path):
    for name in ("one", "two"):
        save_pictures(tmp_path / name, 1)
        workspace.import_dataset(str(tmp_path / name))
    left = workspace.root / "datasets" / ".removed-123"
    (workspace.root / "datasets" / "one").rename(left)
    assert workspace.dataset_names() == ["two"]
    workspace.remove("two")
    assert not left.exists()


@pytest.mark.parametrize("name", ["x" * 300, "../../zz", "a\0b"])
def test_removing_what_cannot_exist_makes_nothing(crlc, workspace: Workspace, name: str):
    outcome = crlc("remove", name, "--yes")
    assert outcome.code == 1
    assert "No data set is named" in outcome.err
    assert not workspace.root.exists()


@pytest.mark.parametrize("given", ["~nosuchuser/pictures", "x" * 5000, "a\0b"])
def test_paths_that_cannot_exist(crlc, given: str):
    outcome = crlc("import", given)
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "Unexpected" not in outcome.err


def test_a_workspace_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from crlc.cli.main import main

    (tmp_path / "file").touch()
    assert main(["datasets", "--workspace", str(tmp_path / "file")]) == 2
    assert "is a file; it must be a folder" in capsys.readouterr().err


def test_advice_can_be_copied_into_a_shell(crlc, workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "My Photos", 10)
    crlc("import", tmp_path / "My Photos", "--name", "mine")
    (tmp_path / "My Photos").rename(tmp_path / "New Place")
    (tmp_path / "New Place" / "00000.png").unlink()
    advice = crlc("relink", "mine", tmp_path / "New Place").out.splitlines()[-1]
    command = advice.split("with: ")[1]
    assert command == f"crlc import '{tmp_path / 'New Place'}' --name mine --workspace {workspace.root}"
