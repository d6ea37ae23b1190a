"""Importing a folder with every kind of odd, broken and hostile file."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from crlc.config import ImportOptions
from crlc.data.manifest import Manifest
from crlc.names import from_printable, from_spreadsheet_safe
from crlc.workspace import Workspace
from tests.hostile import READABLE, SKIPPED, make_hostile_folder

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX file names, links and pipes"),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL"),  # Pillow's remarks on the files that are meant to be broken
]


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, str], dict[str, tuple[str, str | None]], Workspace]:
    """What was expected, and for each path the status and reason that the import gave it."""
    base = tmp_path_factory.mktemp("hostile")
    folder = base / "pictures"
    expected = make_hostile_folder(folder)
    workspace = Workspace(base / "workspace")
    dataset, _ = workspace.import_dataset(str(folder), options=ImportOptions(workers=2))
    with Manifest(dataset.folder) as manifest:
        found = {record.path: (record.status, record.reason) for record in manifest.records()}
    return expected, found, workspace


def test_there_are_at_least_forty_kinds_and_all_are_accounted_for(imported):
    expected, found, _ = imported
    assert len(expected) >= 40
    assert set(found) == {path for path, fate in expected.items() if fate != SKIPPED}


def test_every_odd_file_that_is_an_image_is_readable(imported):
    expected, found, _ = imported
    wrong = {path: found[path] for path, fate in expected.items() if fate == READABLE and found[path][0] != "ok"}
    assert not wrong


def test_every_other_file_has_a_reason_that_a_person_understands(imported):
    expected, found, _ = imported
    reasons = {path: fate for path, fate in expected.items() if fate not in (READABLE, SKIPPED)}
    assert {found[path][0] for path in reasons} == {"unreadable"}
    wrong = {path: found[path][1] for path, words in reasons.items() if words not in (found[path][1] or "")}
    assert not wrong


def test_the_list_of_problems_names_each_file_exactly_and_is_no_formula(imported, tmp_path: Path):
    _, found, workspace = imported
    file = tmp_path / "problems.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        workspace.dataset("pictures").write_problems(stream)
    with file.open(newline="", encoding="utf-8") as stream:
        cells = [row["path"] for row in csv.DictReader(stream)]
    assert {from_printable(from_spreadsheet_safe(cell)) for cell in cells} == {
        path for path, (status, _) in found.items() if status == "unreadable"
    }
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_copies_are_found(imported):
    _, _, workspace = imported
    # plain.jpg, its copy, its hard link and its symbolic link are one content.
    assert workspace.dataset("pictures").summary().duplicates == 3


def test_a_hostile_layout_is_not_taken_for_classes(imported):
    _, _, workspace = imported
    assert workspace.dataset("pictures").summary().classes == {}


def test_nothing_in_the_folder_is_touched(tmp_path: Path, workspace: Workspace):
    folder = tmp_path / "pictures"
    make_hostile_folder(folder)

    def state() -> dict[Path, tuple[int, int, int, int]]:
        entries = {path: os.lstat(path) for path in folder.rglob("*")}
        return {path: (s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in entries.items()}

    before = state()
    workspace.import_dataset(str(folder))
    workspace.import_dataset(str(folder))
    workspace.remove("pictures")
    assert state() == before


def test_pixels_of_readable_images_are_there_and_of_others_are_not(imported):
    _, found, workspace = imported
    dataset = workspace.dataset("pictures")
    store = dataset.pixels()
    assert len(store) == sum(status == "ok" for status, _ in found.values())
    assert store.read(store.ids).shape == (len(store), store.size, store.size, 3)
    assert np.unique(store.read(store.ids).reshape(len(store), -1), axis=0).shape[0] > 30


def test_permission_denied_is_a_reason_and_not_an_end(tmp_path: Path, start_crlc, workspace: Workspace):
    folder = tmp_path / "pictures"
    make_hostile_folder(folder)
    (folder / "plain.jpg").chmod(0)
    (folder / "a").chmod(0)
    without_rights: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("running as root, and setpriv is not there to give up root's rights")
        without_rights = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    try:
        process = start_crlc("import", folder, before=without_rights)
        _, errors = process.communicate(timeout=120)
    finally:
        (folder / "a").chmod(0o700)
    assert process.returncode == 0, errors
    with Manifest(workspace.dataset("pictures").folder) as manifest:
        reasons = {record.path: record.reason for record in manifest.records("status = 'unreadable'")}
    assert reasons["plain.jpg"] == "permission denied"
    assert reasons["a"] == "the folder cannot be opened: permission denied"
