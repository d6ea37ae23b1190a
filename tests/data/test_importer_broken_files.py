"""Tests of importing a folder with every kind of unusual, broken and hostile file."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.paths import from_printable, unescape_formula
from crlc.workspace import Workspace
from tests.fixtures.broken_files import READABLE, SKIPPED, make_broken_folder

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX file names, links and pipes"),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL"),  # Pillow's warnings about the broken files
]


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, str], dict[str, tuple[str, str | None]], Workspace]:
    """Return the expected results, and for each path the status and reason that the import recorded."""
    base = tmp_path_factory.mktemp("hostile")
    folder = base / "pictures"
    expected = make_broken_folder(folder)
    workspace = Workspace(base / "workspace")
    dataset, _ = workspace.import_dataset(str(folder), options=ImportOptions(workers=2))
    with Manifest(dataset.folder) as manifest:
        found = {record.path: (record.status, record.reason) for record in manifest.read_records()}
    return expected, found, workspace


def test_import_lists_every_file_that_is_not_skipped(imported):
    expected, found, _ = imported
    assert len(expected) >= 40
    assert set(found) == {path for path, result in expected.items() if result != SKIPPED}


def test_import_reads_every_unusual_image(imported):
    expected, found, _ = imported
    wrong = {path: found[path] for path, result in expected.items() if result == READABLE and found[path][0] != "ok"}
    assert not wrong


def test_import_gives_a_reason_for_every_unreadable_file(imported):
    expected, found, _ = imported
    reasons = {path: result for path, result in expected.items() if result not in (READABLE, SKIPPED)}
    assert {found[path][0] for path in reasons} == {"unreadable"}
    wrong = {path: found[path][1] for path, words in reasons.items() if words not in (found[path][1] or "")}
    assert not wrong


def test_unreadable_csv_names_each_file_exactly_and_escapes_formulas(imported, tmp_path: Path):
    _, found, workspace = imported
    file = tmp_path / "problems.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        workspace.open_dataset("pictures").write_unreadable_csv(stream)
    with file.open(newline="", encoding="utf-8") as stream:
        cells = [row["path"] for row in csv.DictReader(stream)]
    assert {from_printable(unescape_formula(cell)) for cell in cells} == {
        path for path, (status, _) in found.items() if status == "unreadable"
    }
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_import_counts_exact_copies(imported):
    _, _, workspace = imported
    # plain.jpg, its copy, its hard link and its symbolic link are one content.
    assert workspace.open_dataset("pictures").summarize().duplicates == 3


def test_import_does_not_treat_an_unusual_layout_as_classes(imported):
    _, _, workspace = imported
    assert workspace.open_dataset("pictures").summarize().classes == {}


def test_import_does_not_change_the_folder(tmp_path: Path, workspace: Workspace):
    folder = tmp_path / "pictures"
    make_broken_folder(folder)

    def read_state() -> dict[Path, tuple[int, int, int, int]]:
        entries = {path: os.lstat(path) for path in folder.rglob("*")}
        return {path: (s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in entries.items()}

    before = read_state()
    workspace.import_dataset(str(folder))
    workspace.import_dataset(str(folder))
    workspace.remove_dataset("pictures")
    assert read_state() == before


def test_pixel_store_has_exactly_the_readable_images(imported):
    _, found, workspace = imported
    dataset = workspace.open_dataset("pictures")
    store = dataset.open_pixels()
    assert len(store) == sum(status == "ok" for status, _ in found.values())
    assert store.read(store.ids).shape == (len(store), store.size, store.size, 3)
    assert np.unique(store.read(store.ids).reshape(len(store), -1), axis=0).shape[0] > 30


def test_import_records_permission_denied_as_a_reason(tmp_path: Path, start_crlc, workspace: Workspace):
    folder = tmp_path / "pictures"
    make_broken_folder(folder)
    (folder / "plain.jpg").chmod(0)
    (folder / "a").chmod(0)
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("running as root, and setpriv, which drops root's permissions, is not installed")
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    try:
        process = start_crlc("import", folder, before=prefix)
        _, errors = process.communicate(timeout=120)
    finally:
        (folder / "a").chmod(0o700)
    assert process.returncode == 0, errors
    with Manifest(workspace.open_dataset("pictures").folder) as manifest:
        reasons = {record.path: record.reason for record in manifest.read_records("status = 'unreadable'")}
    assert reasons["plain.jpg"] == "permission denied"
    assert reasons["a"] == "the folder cannot be opened: permission denied"
